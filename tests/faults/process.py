"""Starts mrmf with a fault waiting for it, and never leaves a process behind."""
import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
MRMF = os.path.abspath(os.environ.get("MRMF", ROOT / "build/mrmf"))
SHIM = os.path.abspath(os.environ.get("MRMF_FAULT_SHIM", pathlib.Path(MRMF).parent / "tests/libfault_shim.so"))
ALL = uuid.uuid4().hex  # in the environment of every process that this one starts
TIMEOUT = 60  # seconds, for what takes about one


@dataclasses.dataclass
class Command:
    words: tuple
    ranks: int = 0
    fault: dict | None = None       # settings of the shim
    limits: dict | None = None      # of prlimit, for mrmf itself: {"fsize": 4096}
    during: object = None           # called with a Running beside it
    stdout: str | None = None       # a file for its output instead of ours


@dataclasses.dataclass
class Done:
    code: int              # of the program or of mpirun; -n for signal n; None: it hung and was killed
    output: str            # stderr behind stdout
    stdout: str
    seconds: float
    calls: list            # (rank, call, path) of the shim's log
    fired: list            # the same, of the faults that came about
    launcher_hung: bool    # mpirun alone did not end

    def errors(self):
        return sorted({line for line in self.output.splitlines() if line.startswith("mrmf: error")})


class Running:
    """A command under way, as those see it who disturb it."""

    def __init__(self, process, tag, ranks):
        self.process, self.tag, self.count = process, tag, ranks

    def pids(self, name=None):
        """Of its processes, found by a variable of their environment; those called `name` alone."""
        found = {}
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                environment = (entry / "environ").read_bytes()
                if self.tag not in environment or (name and (entry / "comm").read_text() != name + "\n"):
                    continue
                rank = re.search(rb"(?:^|\0)OMPI_COMM_WORLD_RANK=(\d+)\0", environment)
                found[int(entry.name)] = int(rank[1]) if rank else 0
            except OSError:
                pass  # gone meanwhile
        return found

    def rank(self, number):
        """The process of a rank, or None."""
        return next((pid for pid, rank in self.pids("mrmf").items() if rank == number), None)

    def send(self, number, rank=0):
        pid = self.rank(rank)
        if pid is not None:
            try:
                os.kill(pid, number)
                return True
            except ProcessLookupError:
                pass
        return False

    def over(self):
        return self.process.poll() is not None


def environment(command, scratch, tag):
    own = dict({"MRMF_CPU_KERNELS": "fixed"} | os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
               OMPI_MCA_mpi_yield_when_idle="1", OMPI_MCA_btl_vader_backing_directory=scratch, TMPDIR=scratch,
               OMPI_MCA_orte_tmpdir_base=scratch, OMPI_MCA_orte_abort_print_stack="0", MPLCONFIGDIR=scratch, MRMF_FAULTS_TAG=tag)
    if command.fault is not None:
        own["MRMF_FAULT"] = ",".join(f"{key}={value}" for key, value in command.fault.items())
        own["MRMF_FAULT_LOG"] = os.path.join(scratch, "calls")
        own["LD_PRELOAD"] = SHIM
        if command.ranks:
            own["MRMF_FAULT_PROGRAM"] = "mrmf"
    return own


def words(command):
    own = [MRMF, *command.words]
    if command.limits:
        own = ["prlimit", *(f"--{name}={value}" for name, value in command.limits.items()), "--", *own]
    if command.ranks:
        own = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(command.ranks), *own]
    return own


def calls_of(scratch):
    path = pathlib.Path(scratch, "calls")
    calls, fired = [], []
    for line in path.read_text().splitlines() if path.exists() else []:
        into = fired if line.startswith("! ") else calls
        rank, call, name = line.removeprefix("! ").split(" ", 2)
        into.append((int(rank), call, name))
    return calls, fired


def run(command, folder, timeout=TIMEOUT):
    """To its end, or to its time limit; nothing of it is left then."""
    scratch = tempfile.mkdtemp(prefix="mrmf-faults-run-")
    tag = f"{ALL}-{uuid.uuid4().hex}"
    started = time.monotonic()
    out = open(command.stdout, "w") if command.stdout else subprocess.PIPE
    process = subprocess.Popen(words(command), cwd=folder, env=environment(command, scratch, tag), stdout=out,
                               stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, errors="replace",
                               start_new_session=True)
    running = Running(process, tag.encode(), command.ranks)
    helper = threading.Thread(target=command.during, args=(running,)) if command.during else None
    if helper:
        helper.start()
    launcher_hung = False
    try:
        stdout, stderr = process.communicate(timeout=timeout)
        code = process.returncode
    except subprocess.TimeoutExpired:
        # mpirun of Open MPI 4.1 may stay when a rank is killed, or ends, as it connects to it. Then no rank is left.
        launcher_hung = bool(command.ranks) and not running.pids("mrmf")
        code = 128 + signal.SIGKILL if launcher_hung else None
        end(running)
        stdout, stderr = process.communicate()
    seconds = time.monotonic() - started
    if helper:
        helper.join()
    end(running)
    if command.stdout:
        out.close()
    calls, fired = calls_of(scratch)
    shutil.rmtree(scratch, ignore_errors=True)
    return Done(code, (stdout or "") + stderr, stdout or "", seconds, calls, fired, launcher_hung)


def end_all():
    end(Running(None, ALL.encode(), 0))


def end(running):
    """Kills what is left of it. A rank that outlives its mpirun ends by itself, but not at once."""
    for _ in range(100):
        pids = running.pids()
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)
