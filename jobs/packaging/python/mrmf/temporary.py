"""Files and folders that are there for a time: they go when their block ends, or else at the next call of this package.

Their names say which process made them. So what a killed process left is known from what a living one still uses.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import socket
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Iterator

_MARK = re.compile(r"([0-9a-f]{8})-(\d+)-[0-9a-f]{8}")


def _realm() -> str:
    """Within which a process has its number: this machine, and a container's own numbers."""
    try:
        numbers = os.readlink("/proc/self/ns/pid")
    except OSError:
        numbers = ""
    return hashlib.sha256(f"{socket.gethostname()} {numbers}".encode()).hexdigest()[:8]


def _mark() -> str:
    return f"{_realm()}-{os.getpid()}-{secrets.token_hex(4)}"


def _is_abandoned(mark: str) -> bool:
    """Whether the process that made it is no more. Of another machine's processes nothing is known."""
    found = _MARK.fullmatch(mark)
    if found is None or found[1] != _realm():
        return False
    try:
        os.kill(int(found[2]), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):  # another user's
        pass
    return False


def _remove_abandoned(folder: Path, prefix: str) -> None:
    """Removes what killed processes left in a folder under names that begin with this."""
    try:
        entries = [entry for entry in os.scandir(folder)
                   if entry.name.startswith(prefix) and _is_abandoned(entry.name[len(prefix):])]
    except OSError:  # the block says what is wrong with the folder
        return
    for entry in entries:
        with suppress(OSError):
            if entry.stat(follow_symlinks=False).st_uid != os.getuid():
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)


@contextmanager
def work_folder() -> Iterator[Path]:
    """A folder of one's own among the system's temporary files, until the block ends."""
    place, prefix = Path(tempfile.gettempdir()), "mrmf-work-"
    _remove_abandoned(place, prefix)
    folder = place / (prefix + _mark())
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def whole_file(target: Path) -> Iterator[str]:
    """A path beside ``target`` at which the block makes a file. That takes the target's place when the block ends, and is
    removed where it fails.

    There is no file before the block makes it: one that is cut to nothing first, ext4 writes to disk as it is closed.
    """
    real = target.resolve()  # what a link leads to: that may be on another disk
    prefix = f".{real.name}."
    _remove_abandoned(real.parent, prefix)
    temporary = str(real.with_name(prefix + _mark()))
    try:
        yield temporary
        os.replace(temporary, real)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
