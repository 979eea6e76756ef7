"""The kinds of faults: how each is made for a case, from a source of random choices."""
import dataclasses
import errno
import fnmatch
import os
import pathlib
import random
import re
import shutil
import signal
import threading
import time
import typing

import hostile
import process

KILL, TERM, USR1, INT, STOP, CONT = (signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGSTOP,
                                     signal.SIGCONT)


@dataclasses.dataclass
class Fault:
    what: str                       # in words, for who reads of it
    settings: dict | None = None    # of the shim
    limits: dict | None = None
    during: typing.Callable | None = None
    stdout: str | None = None
    prepare: typing.Callable | None = None  # what is done to the folder before
    repair: typing.Callable | None = None   # and undone before the second start
    mount: str | None = None        # options of a tmpfs around the folder
    read_only: bool = False
    names: list = dataclasses.field(default_factory=list)  # the message has one of these
    deadly: frozenset = frozenset()  # signals that may end it
    kills: bool = False             # it is given no chance to clean up
    must_fail: bool = False         # done would be a lie
    leaves: bool = False            # it may leave files of its own that it could not remove
    changes_input: bool = False     # what it reads is not what the undisturbed run read, so its result may differ
    allowed: frozenset = frozenset()  # new files that are not its own


def names_of(case, *paths):
    """What a message may call a file by: its name, that of what it is to become, or the output that it belongs to."""
    names = []
    for path in paths:
        names.append(re.sub(r"\.partial.*", "", os.path.basename(path)))
    return [name for name in dict.fromkeys([*names, *case.outputs]) if name]


# At the n-th call.

def at_call(call, error, times=1, pattern="*"):
    """`error`: names of errors to choose from, or what the shim does instead; `pattern`: of the file's name."""
    def make(rng, case, reference):
        found = [(rank, path) for rank, name, path in reference.calls
                 if name == call and fnmatch.fnmatch(os.path.basename(path), pattern)]
        if not found:
            return None
        rank = rng.choice(sorted({rank for rank, _ in found}))
        paths = [path for of, path in found if of == rank]
        nth = rng.randint(1, len(paths))
        settings = {"call": call, "nth": nth, "rank": rank, "times": times, "pattern": pattern}
        settings |= {"action": error} if error in ("short", "change") else {"errno": getattr(errno, rng.choice(error.split()))}
        said = settings.get("action") or errno.errorcode[settings["errno"]]
        result = any(f"/{output}" in paths[nth - 1] for output in case.outputs)
        return Fault(f"{call} {nth} of {len(paths)}{' and all after it' if times == 0 else ''}: {said}, rank {rank}, "
                     f"{short_path(paths[nth - 1])}", settings, names=names_of(case, paths[nth - 1]), leaves=call == "unlink",
                     must_fail=result and call == "sync" and said != "EINTR")
    return make


def short_path(path):
    return "/".join(pathlib.PurePath(path).parts[-2:])


def signal_at_call(*numbers):
    def make(rng, case, reference):
        if not reference.calls:
            return None
        rank, call, path = rng.choice(reference.calls)
        nth = rng.randint(1, sum(of == rank and name == call for of, name, _ in reference.calls))
        number = rng.choice(numbers)
        return Fault(f"{number.name} at {call} {nth}, rank {rank}", {"call": call, "nth": nth, "rank": rank, "action": "signal",
                                                                    "errno": int(number)},
                     deadly=deadly(number), kills=killing(number, case), during=wakes if number == STOP else None)
    return make


def deadly(number):
    return frozenset() if number == STOP else frozenset({int(number)})


def killing(number, case):
    """Where a rank ends by a signal, mpirun ends the others by SIGKILL."""
    return number == KILL or (number != STOP and case.ranks > 1)


def wakes(running):
    """A stopped process continues after a while."""
    while not running.over():
        time.sleep(0.1)
        for pid in running.pids():
            if state_of(pid) == "T":
                time.sleep(0.2)
                os.kill(pid, CONT)


def state_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


# At a random moment.

def signal_at_moment(*numbers):
    def make(rng, case, reference):
        number = rng.choice(numbers)
        moment = rng.uniform(0, reference.seconds)
        rank = rng.randrange(max(case.ranks, 1))

        def during(running):
            time.sleep(moment)
            running.send(number, rank)
            if number == STOP:
                wakes(running)
        return Fault(f"{number.name} to rank {rank} after {moment:.3f} s", during=during, deadly=deadly(number),
                     kills=killing(number, case))
    return make


def rank_lost(rng, case, reference):
    if case.ranks < 2:
        return None
    fault = signal_at_moment(KILL)(rng, case, reference)
    # mpirun may end the others, which it tells first by SIGTERM, or one of them sees that a neighbour is gone.
    return dataclasses.replace(fault, deadly=frozenset({int(KILL), int(TERM)}))


def rank_stopped(rng, case, reference):
    """In training, for longer than run.timeout: the others see it and wait, or it is over before it is stopped."""
    if case.ranks < 2 or case.words[0] != "train":
        return None
    moment, rank = rng.uniform(0.3, 1) * reference.seconds, rng.randrange(case.ranks)

    def during(running):
        time.sleep(moment)
        running.send(STOP, rank)
        end = time.monotonic() + 12
        while not running.over() and time.monotonic() < end:
            time.sleep(0.05)
        while not running.over():
            running.send(CONT, rank)
            time.sleep(0.2)
    return Fault(f"SIGSTOP of rank {rank} for 12 s after {moment:.3f} s", during=during)


# File systems and limits.

def full_disk(options):
    def make(rng, case, reference):
        if not case.outputs or case.ranks > 2:
            return None
        share = rng.random()
        return Fault(f"tmpfs, {options} for {share:.2f} of what it needs", mount=f"{options} {share}",
                     names=[*names_of(case), "No space left"])
    return make


def read_only(rng, case, reference):
    if not case.outputs:
        return None
    return Fault("read-only tmpfs", mount="size 1", read_only=True, names=[*names_of(case), "Read-only"])


def limit(name, low, high, *words):
    def make(rng, case, reference):
        value = rng.randint(low, high)
        if name == "nofile" and case.ranks > 1:
            value = max(value, 32)
        return Fault(f"{name} = {value}", limits={name: value}, names=[*words, *case.outputs])
    return make


# What it reads.

DAMAGES = ("flipped bits", "cut short", "zeros", "made longer", "empty")


def damage_bytes(rng, how, data):
    data = bytearray(data)
    if how == "flipped bits":
        for _ in range(rng.randint(1, 8)):
            if data:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif how == "cut short":
        del data[rng.randrange(max(len(data), 1)):]
    elif how == "zeros":
        at = rng.randrange(max(len(data), 1))
        data[at:at + 64] = bytes(len(data[at:at + 64]))
    elif how == "made longer":
        data += bytes(rng.randrange(256) for _ in range(rng.randint(1, 600)))
    else:
        data.clear()
    return bytes(data)


def damaged(how):
    def make(rng, case, reference):
        if not case.inputs:
            return None
        name = rng.choice(case.inputs)
        seed = rng.random()

        def prepare(folder):
            path = folder / name
            shutil.copy2(path, folder.parent / "kept")
            path.write_bytes(damage_bytes(random.Random(seed), how, path.read_bytes()))

        def repair(folder):
            shutil.copy2(folder.parent / "kept", folder / name)
        # A number in a data file that is another one is a number; in a file of mrmf's own with a checksum it is not.
        return Fault(f"{name}: {how}", prepare=prepare, repair=repair, limits={"as": 4 << 30},
                     # A configuration that says something else may name other data; numbers in data may be anything.
                     names=[os.path.basename(name), "extreme values",
                            *(["--set", "toml", "data set"] if name.endswith("toml") else [])],
                     changes_input=name not in case.trusted)
    return make


def hostile_file(makers, name):
    def make(rng, case, reference):
        names = [own for own in case.inputs if own.endswith(name)]
        if not names:
            return None
        path, maker = rng.choice(names), rng.choice(makers)

        def prepare(folder):
            shutil.copy2(folder / path, folder.parent / "kept")
            maker(folder / path, rng)

        def repair(folder):
            for extra in ("other.h5", "outside.bin"):
                (folder / extra).unlink(missing_ok=True)
            remove(folder / path)
            shutil.copy2(folder.parent / "kept", folder / path)
        return Fault(f"{path}: {maker.__name__.replace('_', ' ')}", prepare=prepare, repair=repair, changes_input=True,
                     limits={"as": 4 << 30}, names=[] if maker in hostile.NAMES_OF_THEIR_OWN else
                     [os.path.basename(path), "config.toml", "--set", "extreme values", "control character"])
    return make


# What is in its way.

def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.is_symlink() or path.exists():
        path.unlink()


def obstacle(rng, case, reference):
    if not case.outputs or "overwrit" in case.name or "older" in case.name or case.name == "train continued":
        return None
    output = case.outputs[0]
    ways = ["a file", "a folder with a file", "a dangling link", "a link to a file", "a FIFO", "a link to itself"]
    if case.words[0] in ("train", "predict", "plot"):  # the others may put files into a folder, by whatever name
        ways.append("a link to a folder")
    how = rng.choice(ways)

    def prepare(folder):
        place = folder / output
        place.parent.mkdir(parents=True, exist_ok=True)
        if how == "a file":
            place.write_text("of somebody else\n")
        elif how == "a folder with a file":
            place.mkdir()
            (place / "theirs.txt").write_text("of somebody else\n")
            (place / "checkpoints").mkdir()
            (place / "checkpoints/step-1000.pt").write_text("of somebody else\n")
            (place / "log.txt").write_text("of somebody else\n")
        elif how == "a FIFO":
            os.mkfifo(place)
        else:
            target = {"a dangling link": "nowhere", "a link to a file": "notes.txt", "a link to a folder": "runs/theirs",
                      "a link to itself": place.name}[how]
            place.symlink_to(target if how == "a link to itself" else os.path.relpath(folder / target, place.parent))

    def repair(folder):
        remove(folder / output)
    return Fault(f"{how} in the place of {output}", prepare=prepare, repair=repair, names=[output.split("/")[0], *case.outputs],
                 allowed=frozenset())


def two_at_once(rng, case, reference):
    if not case.outputs or case.ranks or case.words[0] == "plot":
        return None
    delay = rng.uniform(0, reference.seconds)

    def during(running):
        """Another one of the same, in the same folder; its end does not matter here, its files do."""
        time.sleep(delay)
        folder = pathlib.Path(os.readlink(f"/proc/{running.process.pid}/cwd")) if not running.over() else None
        if folder is not None:
            process.run(process.Command(case.words, case.ranks), folder)
    return Fault(f"the same command in the same folder after {delay:.3f} s", during=during,
                 names=[*names_of(case), "another"])


def no_room_for_words(rng, case, reference):
    return Fault("its output goes to a full device", stdout="/dev/full", names=["output", "stdout", "/dev/full", "print"])


KINDS = {  # name: (how it is tried, maker)
    "write: no space": ("the n-th write returns ENOSPC", at_call("write", "ENOSPC")),
    "write: no space from then on": ("the n-th write and all later ones return ENOSPC", at_call("write", "ENOSPC", 0)),
    "write: I/O error": ("the n-th write returns EIO", at_call("write", "EIO")),
    "write: quota": ("the n-th write and all later ones return EDQUOT", at_call("write", "EDQUOT", 0)),
    "write: interrupted": ("the n-th write returns EINTR", at_call("write", "EINTR")),
    "write: short": ("the n-th write takes half of the bytes", at_call("write", "short")),
    "write: another bit": ("a bit of the n-th write to an unfinished file is another one, and nobody says so",
                           at_call("write", "change", pattern="*.partial-*")),
    "sync fails": ("the n-th fsync returns EIO, ENOSPC or EINTR", at_call("sync", "EIO ENOSPC EINTR")),
    "close fails": ("the n-th close returns EIO, ENOSPC or EINTR", at_call("close", "EIO ENOSPC EINTR")),
    "rename fails": ("the n-th rename or link returns EIO, EACCES or ENOSPC", at_call("rename", "EIO EACCES ENOSPC")),
    "rename not supported": ("the n-th rename or link returns EINVAL or ENOSYS", at_call("rename", "EINVAL ENOSYS")),
    "truncate fails": ("the n-th ftruncate or fallocate returns ENOSPC, EIO or EOPNOTSUPP", at_call("truncate", "ENOSPC EIO EOPNOTSUPP")),
    "open fails": ("the n-th open for writing fails", at_call("open", "EACCES EMFILE ENOSPC EROFS EINTR")),
    "open to read fails": ("the n-th open for reading fails", at_call("openr", "EACCES EMFILE EIO EINTR")),
    "read fails": ("the n-th read returns EIO or EINTR", at_call("read", "EIO EINTR")),
    "read: short": ("the n-th read returns half of the bytes", at_call("read", "short")),
    "mkdir fails": ("the n-th mkdir fails", at_call("mkdir", "ENOSPC EACCES EROFS")),
    "unlink fails": ("the n-th unlink fails", at_call("unlink", "EACCES EIO")),
    "kill -9 at a call": ("SIGKILL at the n-th call on a file", signal_at_call(KILL)),
    "kill -9 at a moment": ("SIGKILL at a random moment", signal_at_moment(KILL)),
    "signal at a call": ("SIGTERM, SIGUSR1 or SIGINT at the n-th call on a file", signal_at_call(TERM, USR1, INT)),
    "signal at a moment": ("SIGTERM, SIGUSR1 or SIGINT at a random moment", signal_at_moment(TERM, USR1, INT)),
    "stopped and continued": ("SIGSTOP at the n-th call on a file, SIGCONT after 0.3 s", signal_at_call(STOP)),
    "rank lost": ("SIGKILL of one of several ranks at a random moment", rank_lost),
    "rank stopped": ("SIGSTOP of one of several ranks for longer than run.timeout", rank_stopped),
    "disk full": ("a tmpfs with room for a part of what it writes", full_disk("size")),
    "no more files": ("a tmpfs with inodes for a part of its files", full_disk("nr_inodes")),
    "disk read-only": ("a tmpfs mounted read-only", read_only),
    "limit on file size": ("ulimit -f, 0 to 64 KiB", limit("fsize", 0, 65536, "File too large", "file size")),
    "limit on memory": ("ulimit -v, a part of what it takes", limit("as", 300 << 20, 1200 << 20, "memory")),
    "limit on open files": ("ulimit -n, 12 to 60 (under mpirun from 32)", limit("nofile", 12, 60, "open files", "descriptor", "ulimit -n")),
    **{f"input: {how}": (f"a file that it reads, or had saved: {how}", damaged(how)) for how in DAMAGES},
    "hostile HDF5": ("valid HDF5 with odd shapes, chunks, links, sources, filters, types",
                     hostile_file(hostile.HDF5, "data.h5")),
    "hostile configuration": ("deep, long, huge or odd TOML", hostile_file(hostile.CONFIGS, "config.toml")),
    "hostile records": ("JSON of other kinds, depths and numbers", hostile_file(hostile.RECORDS, ("json", "jsonl"))),
    "something in its place": ("a file, folder, link or FIFO where its output goes", obstacle),
    "two at once": ("the same command twice in one folder", two_at_once),
    "nobody listens": ("its standard output is a full device", no_room_for_words),
}
