"""What is lost? One judgement for all faults: of exit code, message, files, and of the same command started again."""
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import stat
import struct
import sys

import h5py
import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
import events  # noqa: E402

CODES = {0, 2, 3, 4, 75}
DISTURBING = re.compile(r"Traceback|vector::|basic_string|terminate called|HDF5-DIAG|Sanitizer|json\.exception|bad_alloc|"
                        r"std::|MPI_ERR_|Segmentation fault|stack smashing|corrupted")
TIMES = re.compile(r"seconds|_range$|^machine$|^hidden|^time$|^epoch_start$")


def snapshot(folder):
    """{path: what it is} of everything in a folder; links are not followed."""
    found = {}
    for path in sorted(pathlib.Path(folder).rglob("*")):
        info = path.lstat()
        name = str(path.relative_to(folder))
        if stat.S_ISREG(info.st_mode):
            found[name] = "file " + hashlib.sha256(path.read_bytes()).hexdigest()
        elif stat.S_ISLNK(info.st_mode):
            found[name] = "link " + os.readlink(path)
        else:
            found[name] = "folder" if stat.S_ISDIR(info.st_mode) else "special"
    return found


def without_times(value):
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if not TIMES.search(key)}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def hdf5_contents(path):
    contents = {}

    def visit(name, item):
        for key, value in item.attrs.items():
            contents[f"{name}@{key}"] = repr(value)
        if isinstance(item, h5py.Dataset):
            data = item[()]
            if name == "progress":  # of a checkpoint
                contents[name] = without_times(json.loads(data[0]))
                return
            contents[name] = (item.dtype.str, item.shape, data.tobytes() if data.dtype != object else repr(data))
    with h5py.File(path, "r") as file:
        visit("/", file)
        file.visititems(visit)
    return contents


def contents(path):
    """What must not depend on faults: everything but times."""
    path = pathlib.Path(path)
    try:
        if path.suffix == ".h5":
            return hdf5_contents(path)
        if "tfevents" in path.name:
            return [(step, without_times(values)) for _, step, values in events.read(path)]
        if path.suffix in (".json", ".jsonl"):
            if path.name == "io.json":  # figures of this machine at this moment
                return sorted(json.loads(path.read_text()))
            text = path.read_text()
            return [without_times(json.loads(line)) for line in (text.splitlines() if path.suffix == ".jsonl" else [text])]
        if path.suffix == ".csv":
            return re.sub(r"[\d.]+", "#", path.read_text())
        if path.suffix == ".png":
            return path.read_bytes()[-12:]  # whole; where it ends times are not in the picture, but in its size
        return path.read_bytes()
    except (OSError, ValueError, KeyError, RuntimeError, AssertionError, IndexError, struct.error) as error:
        return f"unreadable: {error}"


def outputs(case, folder):
    """{path: contents} of what the command makes; its log, whose lines have times, and locks are not a result."""
    found = {}
    folder = pathlib.Path(folder)
    for name in case.outputs:
        place = folder / name
        for path in sorted(place.rglob("*")) if place.is_dir() else [place] if place.exists() else []:
            if path.is_file() and path.name not in ("log.txt",):
                found[str(path.relative_to(folder))] = contents(path)
    return found


def printed(text):
    """Without times and memory, which differ from run to run."""
    lines = [re.sub(r"-?\d+\.\d+(e[-+]\d+)?", "#", line) if re.search(r"memory| s$|\(s\)|seconds|saved|time", line) else line
             for line in text.splitlines()]
    return [re.sub(r"\s+", " ", re.sub(r"-{2,}", "", line)).strip() for line in lines]


@dataclasses.dataclass
class Reference:
    """An undisturbed run."""
    outputs: dict
    printed: list
    after: dict
    seconds: float
    calls: list
    size: int = 0  # of all files after it


def differences(found, expected):
    """Names, in words, of what is not as it should be."""
    words = [f"{name} is missing" for name in expected if name not in found]
    words += [f"{name} is there and should not be" for name in found if name not in expected]
    for name in expected:
        if name in found and found[name] != expected[name]:
            why = found[name] if isinstance(found[name], str) and found[name].startswith("unreadable") else first_difference(
                found[name], expected[name])
            words.append(f"{name} differs: {why}")
    return words


def first_difference(found, expected):
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in expected:
            if found.get(key) != expected[key]:
                return f"at {key}"
    if isinstance(found, list) and isinstance(expected, list):
        return f"{len(found)} lines for {len(expected)}" if len(found) != len(expected) else "in a line"
    return "in its bytes" if isinstance(found, bytes) else "in its contents"


def is_partial(name):
    return ".partial" in os.path.basename(name) or os.path.basename(name).startswith(".")


def exit_problems(fault, done):
    """Of exit code and message."""
    if done.code is None:
        return ["it hangs"]
    code = done.code
    ended = -code if code < 0 else code - 128 if code > 128 else 0
    if ended:
        if ended in fault.deadly:
            return []
        return [f"signal {ended} ends it: {tail(done)}"]
    if code not in CODES:
        return [f"exit code {code} is not of the table: {tail(done)}"]
    problems = []
    found = DISTURBING.search(done.output)
    if found:
        problems.append(f"text of a library or of the system: {found[0]}: {tail(done)}")
    if code not in (0, 75):
        lines = done.errors()
        # Ranks that wait for one that is lost give up at the same time, and each says so.
        speakers = sum("error on rank" not in line for line in lines)
        if not lines or speakers > 1:
            problems.append(f"exit code {code} with {len(lines)} lines of error: {tail(done)}")
        elif fault.names and not any(name in line for name in fault.names for line in [*lines, *from_python(done)]):
            problems.append(f"the message names none of {', '.join(fault.names)}: {lines[0]}")
    elif code == 0 and done.errors():
        problems.append(f"exit code 0 with an error: {done.errors()[0]}")
    return problems


def from_python(done):
    """What the plotting script says, to which the program's error refers."""
    return [line for line in done.output.splitlines() if line.startswith("plot.py: ")]


def tail(done):
    lines = [line for line in done.output.splitlines() if line.strip() and "Transport retry" not in line]
    errors = done.errors()
    return (errors[0] if errors else " / ".join(lines[-2:]))[:300]


def file_problems(case, fault, before, after, folder, reference, code):
    """Of the files that were there before, and of those that came."""
    problems = []
    mine = lambda name: any(name == out or name.startswith(out + "/") for out in case.outputs)  # noqa: E731
    for name, was in before.items():
        now = after.get(name)
        if now == was:
            continue
        if not mine(name):
            problems.append(f"{name}, not its own, {'is gone' if now is None else 'has changed'}")
        elif now is None and (case.words[0] != "train" or "/" not in name):
            problems.append(f"{name} of before is gone")
        elif (now is not None and case.words[0] != "train" and not fault.changes_input and
              contents(folder / name) != reference.outputs.get(name)):
            problems.append(f"{name} is neither what it was nor whole")
    killed = fault.kills or code is None
    for name in after:
        if name in before or after[name] == "folder":
            continue
        if is_partial(name) and not name.endswith(".lock"):
            if not killed and name not in reference.after:
                problems.append(f"{name} is left behind")
        elif not mine(name) and name not in fault.allowed:
            problems.append(f"{name} has come")
        elif (mine(name) and case.words[0] != "train" and not fault.changes_input and
              contents(folder / name) != reference.outputs.get(name)):
            problems.append(f"{name} has come and is not whole")
    if code in (2, 3, 4) and case.words[0] != "train" and not killed:
        for name, what in after.items():
            if what == "folder" and name not in before and not any(other.startswith(name + "/") for other in after):
                problems.append(f"the empty folder {name} is left behind")
    return problems
