#!/usr/bin/env python3
"""Says at the end of a run of the tests what failed, because their output scrolls by: failures.py BUILD

Of each test that the last run of CTest failed, the last lines of its output."""
import os
import re
import sys

LINES = 25


def outputs(log):
    """What each test printed, by its name."""
    found = {}
    for test in re.split(r"(?m)^(?=\d+/\d+ Testing: )", log)[1:]:
        found[re.match(r"\d+/\d+ Testing: (\S+)", test)[1]] = test.partition("<end of output>")[0].splitlines()
    return found


def main(build):
    folder = os.path.join(build, "Testing", "Temporary")
    log, failures = (os.path.join(folder, name) for name in ("LastTest.log", "LastTestsFailed.log"))
    if not os.path.exists(log) or not os.path.exists(failures):
        return  # it was interrupted
    with open(log, encoding="utf-8", errors="replace") as file:
        printed = outputs(file.read())
    with open(failures, encoding="utf-8") as file:
        failed = [line.strip().partition(":")[2] for line in file]
    for name in failed:
        print(f"\n--- {name}: the end of what it printed ({folder}/LastTest.log has the rest)",
              *printed.get(name, ["(nothing: it did not start)"])[-LINES:], sep="\n")


if __name__ == "__main__":
    main(sys.argv[1])
