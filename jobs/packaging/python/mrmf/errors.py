"""What a failed command of the program becomes: one exception per exit code, with the program's own line."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Iterator, Optional, Sequence, Union

if TYPE_CHECKING:
    from .run import Run

PathLike = Union[str, os.PathLike]

_PLACE = re.compile(r"(?P<file>(?:/[^:\n]+|[^\s:]+)\.\w+)(?::(?P<number>\d+))?(?::\d+)?: ")
_KEY = re.compile(  # of a configuration, which is no file such as run.toml
    r"(data|model|training|method|run)\.(?!(toml|h5|hdf5|nc|npy|onnx|safetensors|json|csv)$)[a-z_0-9.]+$")
_RANK_ENDED = re.compile(r"exited on signal (\d+)")  # as mpirun says it


class MrmfError(Exception):
    """A command that failed.

    Attributes:
        line: what the program said, without its prefix: what is wrong, where, what to do.
        file: the file that the line names first, or None.
        number: the line in that file, where the program names one.
        advice: what the line says to do (the text behind its last semicolon), or "".
        command: the command, as a list of words.
    """

    exit_code = 4

    def __init__(self, line: str, command: Sequence[str] = ()):
        super().__init__(line)
        self.command = list(command)
        self._read(line)

    def _read(self, line: str) -> None:
        self.line = line
        self.args = (line,)
        place = _PLACE.match(line)
        place = None if place and _KEY.match(place.group("file")) else place
        self.file: Optional[str] = place.group("file") if place else None
        self.number: Optional[int] = int(place.group("number")) if place and place.group("number") else None
        self.advice = line.rpartition("; ")[2] if "; " in line else ""

    def rename(self, path: str, name: str) -> None:
        """Calls a temporary file by the name of what was in it."""
        self._read(re.sub(re.escape(path) + r"(:\d+)*", name, self.line))


class ConfigError(MrmfError):
    """The command or the configuration is wrong (exit code 2)."""

    exit_code = 2


class UnknownKeyError(ConfigError, AttributeError):
    """A configuration has no such key. An AttributeError, too, as keys are attributes."""


class DataError(MrmfError):
    """The data are wrong, or cannot be read (exit code 3)."""

    exit_code = 3


class FaultError(MrmfError):
    """A fault: a rank, a device, a full disk, a loss that is no number, a program that was killed (exit code 4)."""


class Stopped(MrmfError):
    """Stopped by a signal, an interrupt or a time limit, with a checkpoint (exit code 75).

    The same call again continues. ``run`` is the run as far as it came, where there is one.
    """

    exit_code = 75
    run: Optional[Run] = None


@contextmanager
def called(path: PathLike, name: str) -> Iterator[None]:
    """Errors within name what was in a temporary file, which is gone when they are read."""
    try:
        yield
    except MrmfError as error:
        error.rename(str(path), name)
        raise


def error_of(exit_code: int, output: str, command: Sequence[str]) -> MrmfError:
    """The exception for a command that ended with this code and printed this to its error stream."""
    prefix = "mrmf: error: "
    lines = [line for line in output.splitlines() if line.strip(" -")]  # mpirun draws lines of dashes
    said = [line[len(prefix):] for line in lines if line.startswith(prefix)]
    kinds = {kind.exit_code: kind for kind in (ConfigError, DataError, FaultError, Stopped)}
    if exit_code == Stopped.exit_code and not said:
        said = ["stopped, with a checkpoint; the same call again continues"]
    rank = _RANK_ENDED.search(output)
    number = -exit_code if exit_code < 0 else int(rank.group(1)) if rank else 0
    if not said and number:
        said = [f"the program was ended by signal {number}; start it again, it continues from its last checkpoint"]
    text = said[0] if said else lines[-1] if lines else f"the program ended with exit code {exit_code}"
    return kinds.get(exit_code, FaultError)(text, command)
