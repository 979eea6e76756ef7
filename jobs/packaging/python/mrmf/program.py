"""Finds the program and runs its commands."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from .errors import ConfigError, FaultError, Stopped, error_of

Words = Sequence[Union[str, os.PathLike]]


def folder() -> Optional[Path]:
    """The program's own folder within this package (bin, lib, share); None where the package came without one."""
    here = Path(__file__).resolve().parent / "program"
    return here if (here / "bin" / "mrmf").is_file() else None


def find(name: str = "mrmf") -> str:
    """The path of a program: ``$MRMF`` for mrmf itself, else the package's own, else the one on PATH."""
    given = os.environ.get("MRMF") if name == "mrmf" else None
    if given:
        return given
    own = folder()
    if own is not None:
        return str(own / "bin" / name)
    found = shutil.which(name)
    if found and Path(found).resolve() != Path(sys.argv[0]).resolve():
        return found
    raise FaultError(f"there is no program {name}; install the wheel, or set MRMF to the program's path")


# What stops a program: mpirun hands it on to its ranks, and leaves them the time to save that SIGTERM does not.
_STOP = signal.SIGUSR1


def _stop_with_parent() -> Callable[[], Any]:
    """What a child runs before the program, so that it saves and ends when this Python is killed (Linux)."""
    prctl = ctypes.CDLL(None).prctl  # found here: a child of several threads should do no more than call it
    return lambda: prctl(1, int(_STOP), 0, 0, 0)


def _environment() -> Dict[str, str]:
    environment = dict(os.environ)
    environment.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
    environment.setdefault("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    if "OMP_WAIT_POLICY" not in environment:
        # The program sets this, too, and then starts itself again to be heard, which takes a sixth of a short command.
        environment.setdefault("GOMP_SPINCOUNT", "1000")
    if folder() is not None and "MRMF_PYTHON" not in environment:
        # The launcher starts a Python to look for pip's CUDA libraries. This one knows, so each command starts sooner.
        environment["MRMF_PYTHON"] = "true"
        paths = [environment["LD_LIBRARY_PATH"]] if environment.get("LD_LIBRARY_PATH") else []
        environment["LD_LIBRARY_PATH"] = ":".join([*paths, *_cuda_folders()])
    return environment


def _cuda_folders() -> List[str]:
    """Folders of pip's CUDA libraries in this environment."""
    from importlib.util import find_spec
    nvidia = find_spec("nvidia")
    places = nvidia.submodule_search_locations if nvidia is not None else None
    return sorted(str(path) for place in places or [] for path in Path(place).glob("*/lib"))


class Process:
    """A command that is under way. ``wait`` gives what it printed, or raises."""

    def __init__(self, words: Words, ranks: int = 1):
        if ranks < 1:
            raise ConfigError(f"ranks is {ranks}; give 1 or more")
        self._ranks = ranks
        self.words: List[str] = [find(), *(str(word) for word in words)]
        if ranks > 1:
            self.words = [find("mpirun"), "-n", str(ranks), "--oversubscribe", *self.words]
        self._output = tempfile.TemporaryFile()
        self._errors = tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen(
                self.words, stdin=subprocess.DEVNULL, stdout=self._output, stderr=self._errors, env=_environment(),
                start_new_session=True, preexec_fn=_stop_with_parent())
        except OSError as error:
            self._output.close()
            self._errors.close()
            raise FaultError(f"{self.words[0]}: cannot be started; {error.strerror}", self.words) from error

    def running(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        """Asks the program to save and end."""
        if self.running():
            self._process.send_signal(_STOP)

    def wait(self, watch: Optional[Callable[[], Any]] = None) -> str:
        """What the command printed, when it has ended. ``watch`` is called some times a second until then.

        An interrupt asks the program to save and end, and waits for that. It raises Stopped where the program saved, and
        KeyboardInterrupt where there was nothing to save. A second interrupt does not wait. Other exit codes than 0
        raise MrmfError's kinds.
        """
        with self._output, self._errors:
            return self._wait(watch)

    def _wait(self, watch: Optional[Callable[[], Any]]) -> str:
        interrupted = False
        try:
            while self.running():
                try:
                    if watch is not None and not interrupted:
                        watch()
                    self._wait_a_little(None if watch is None else 0.1)
                except KeyboardInterrupt:
                    if interrupted:
                        raise
                    interrupted = True
                    self.stop()
        finally:
            self._end()
        code = self._process.returncode
        if interrupted and code == Stopped.exit_code:
            raise Stopped("interrupted, with a checkpoint; the same call again continues", self.words)
        if interrupted and code in (0, -_STOP, 128 + _STOP):
            raise KeyboardInterrupt
        if code != 0:
            raise error_of(code, self._read(self._errors), self.words)
        return self._read(self._output)

    def _end(self) -> None:
        """Ends what still runs, at once. mpirun is asked first, so that it ends its ranks and removes its files."""
        if self.running() and self._ranks > 1:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
                self._process.wait(timeout=5)
        if self.running():
            self._process.kill()
            self._process.wait()

    def _wait_a_little(self, seconds: Optional[float]) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    @staticmethod
    def _read(file: IO[bytes]) -> str:
        file.seek(0)
        return file.read().decode(errors="replace")


def run(words: Words, ranks: int = 1, watch: Optional[Callable[[], Any]] = None) -> str:
    """Runs a command of the program and gives what it printed. Exit codes other than 0 become exceptions."""
    return Process(words, ranks).wait(watch)


def run_json(words: Words, ranks: int = 1) -> Any:
    """The same for a command that prints one JSON object."""
    text = run([*words, "--json"], ranks)
    return json.loads(text[text.index("{"):])


def settings(values: Mapping[str, Any]) -> List[str]:
    """``--set`` words for keys and values, such as {"training.batch": 64}."""
    from .toml import value_text
    words: List[str] = []
    for key, value in values.items():
        words += ["--set", f"{key}={value_text(value) if not isinstance(value, str) else value}"]
    return words


def main() -> None:
    """The command ``mrmf``: the program itself, in this process's place."""
    _become("mrmf")


def mpirun() -> None:
    """The command ``mrmf-mpirun``: the mpirun that the program was built with."""
    _become("mpirun")


def _become(name: str) -> None:
    try:
        program = find(name)
    except FaultError as error:
        sys.exit(f"mrmf: error: {error}")
    os.execve(program, [program, *sys.argv[1:]], {"MRMF_PYTHON": sys.executable, **os.environ})
