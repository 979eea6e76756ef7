#!/usr/bin/env python3
"""Makes a release of the commit that is checked out: the tag vX.Y.Z and build/mrmf-X.Y.Z.tar.gz, the sources.

Before that it checks: the version stands in VERSION and is the same everywhere else, CHANGELOG.md begins with it and a
date, the tree is clean, the tag is new, and the tests pass. It refuses with a line for everything that is wrong, and then
changes nothing."""
import argparse
import datetime
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
NUMBER = r"\d+\.\d+\.\d+"


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def git(*words):
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)


def the_version():
    text = read("VERSION").strip()
    if not re.fullmatch(NUMBER, text):
        sys.exit(f"release: VERSION holds '{text}' and not a version such as 1.2.3")
    return text


def newest_changes():
    """The first heading of a version in CHANGELOG.md: (its text, the line's number)."""
    for number, line in enumerate(read("CHANGELOG.md").splitlines(), 1):
        if line.startswith("## "):
            return line[3:].strip(), number
    return "", 0


def citation(key):
    found = re.search(rf"(?m)^{key}: *[\"']?([^\"'\n]*)", read("CITATION.cff"))
    return found[1].strip() if found else "nothing"


def pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/guide").glob("*.md"))]


def other_versions(version):
    """A line for each page that shows the program with another version, and for CITATION.cff."""
    if citation("version") != version:
        yield f"CITATION.cff has version {citation('version')}, and VERSION {version}"
    minor = version.rsplit(".", 1)[0]
    for page in pages():
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            for shown in re.findall(rf"(?<![\w/-])mrmf +({NUMBER})", line):
                if shown != version:
                    yield f"{page.relative_to(ROOT)}:{number} shows mrmf {shown}, and VERSION holds {version}"
            for wanted in re.findall(r"find_package\(mrmf (\d+\.\d+)", line):
                if wanted != minor:
                    yield f"{page.relative_to(ROOT)}:{number} has find_package(mrmf {wanted}), and VERSION holds {version}"


def wrong_changes(version):
    heading, number = newest_changes()
    match = re.fullmatch(rf"({NUMBER}) \((\d{{4}}-\d\d-\d\d)\)", heading)
    where = f"CHANGELOG.md:{number}"
    if not match or match[1] != version:
        yield f"{where}: the newest heading is '{heading}'; write '{version} (YYYY-MM-DD)', with the day of the release"
        return
    try:
        datetime.date.fromisoformat(match[2])
    except ValueError:
        yield f"{where}: {match[2]} is no day"
    if citation("date-released") != match[2]:
        yield f"CITATION.cff has date-released {citation('date-released')}, and CHANGELOG.md {match[2]}"


def wrong_tree(version):
    status = git("status", "--porcelain")
    if status.returncode != 0:
        yield "this is no git repository: a release is made in a clone"
        return
    changed = [line[3:] for line in status.stdout.splitlines()]
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        yield f"not committed: {', '.join(changed[:3])}{more}"
    if git("rev-parse", "--verify", "--quiet", f"refs/tags/v{version}").returncode == 0:
        yield f"there is a tag v{version} already: give VERSION the next number"


def archive_of(version):
    return ROOT / "build" / f"mrmf-{version}.tar.gz"


def refuse(wrong):
    if wrong:
        sys.exit("\n".join(f"release: {line}" for line in wrong))


def wrong(version):
    lines = [*other_versions(version), *wrong_changes(version), *wrong_tree(version)]
    if archive_of(version).exists():
        lines.append(f"{archive_of(version).relative_to(ROOT)} is there already: remove it")
    return lines


def make_release(version):
    """The archive appears when it is complete and the tag is set; without the tag there is none."""
    archive = archive_of(version)
    archive.parent.mkdir(exist_ok=True)
    partial = archive.with_name(f"{archive.name}.partial-{os.getpid()}")
    try:
        for words in (["archive", "--format=tar.gz", f"--prefix=mrmf-{version}/", "-o", str(partial), "HEAD"],
                      ["tag", "-a", f"v{version}", "-m", f"mrmf {version}"]):
            done = git(*words)
            refuse([done.stderr.strip()] if done.returncode != 0 else [])
        partial.rename(archive)
    finally:
        partial.unlink(missing_ok=True)
    print(f"release: tag v{version} and {archive.relative_to(ROOT)}; publish it with: git push origin v{version}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="check only; run no test and make nothing")
    parser.add_argument("--tests", choices=["run", "passed"], default="run",
                        help="run: make test-all first (the default); passed: they were run on this commit")
    options = parser.parse_args()
    version = the_version()
    refuse(wrong(version))
    if options.check:
        print(f"release: mrmf {version} can be released")
        return
    if options.tests == "run":
        if subprocess.run(["make", "-C", str(ROOT), "test-all"], check=False).returncode != 0:
            sys.exit("release: tests fail; nothing was tagged")
        refuse(wrong(version))  # the tests may have left files
    make_release(version)


if __name__ == "__main__":
    main()
