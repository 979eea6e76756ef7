"""The machine that the check runs on: where the programs and NVIDIA's libraries are, and whether its GPU can be used."""
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
TOOLKITS = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
MIB_OF_NOBODY = 2048  # what a driver keeps of an idle card is less


class Unusable(Exception):
    """Why nothing can be checked here, in one line."""


class Programs:
    """Beside this folder in a bundle, else in a build folder of the source tree."""

    def __init__(self, build):
        self.bundle = (HERE.parent / "bin/mrmf").exists()
        root = HERE.parent if self.bundle else pathlib.Path(build or HERE.parents[1] / "build").resolve()
        self.mrmf = root / ("bin/mrmf" if self.bundle else "mrmf")
        self.unit = root / ("bin/unit_tests" if self.bundle else "tests/unit_tests")
        self.mpirun = str(root / "bin/mpirun") if self.bundle else "mpirun"
        self.trace = (HERE if self.bundle else root / "tests/gpu") / "libmrmf_kernel_trace.so"
        self.python = os.environ.get("TORCH_PYTHON", "python3")
        for program in (self.mrmf, self.unit):
            if not program.exists():
                raise Unusable(f"{program} is missing; run make first (a bundle made with --without-tests has no GPU check)")

    def places(self):
        """For the command lines of steps.py."""
        return {"mrmf": str(self.mrmf), "unit": str(self.unit), "mpirun": self.mpirun, "python": self.python,
                "python3": sys.executable, "here": str(HERE), "trace": str(self.trace)}


def tool(name):
    """A program of the toolkit, which may not be on PATH; None where it is not."""
    folders = os.pathsep.join([os.environ.get("PATH", "")] + [f"{kit}/bin" for kit in TOOLKITS if kit])
    return shutil.which(name, path=folders)


def library_folders(python):
    """NVIDIA's libraries: pip's, which PyTorch of this machine runs with, before the toolkit's."""
    listing = "import glob, nvidia\nfor root in nvidia.__path__: print('\\n'.join(sorted(glob.glob(glob.escape(root) + '/*/lib'))))"
    try:
        pip = subprocess.run([python, "-c", listing], capture_output=True, text=True, timeout=20).stdout.split("\n")
    except (OSError, subprocess.TimeoutExpired):
        pip = []
    kits = [folder for kit in TOOLKITS if kit for name in ("lib64", "extras/CUPTI/lib64")
            for folder in glob.glob(f"{glob.escape(kit)}/{name}")]
    return [folder for folder in pip + kits if folder]


def environment(programs, work, trial):
    """For all commands: the libraries, a cache of plans in the check's own folder, MPI without a daemon."""
    variables = dict(os.environ)
    variables.update(XDG_CACHE_HOME=str(work / "cache"), MRMF_TEST_CUDA="1", OMPI_ALLOW_RUN_AS_ROOT="1",
                     OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_ess_singleton_isolated="1", PYTHONUNBUFFERED="1")
    given = [variables["LD_LIBRARY_PATH"]] if variables.get("LD_LIBRARY_PATH") else []
    # A source tree's programs know where the libraries are that they were linked with.
    added = library_folders(programs.python) if not trial else []
    folders = added + given if programs.bundle else given + added
    if folders:
        variables["LD_LIBRARY_PATH"] = ":".join(folders)
    return variables


def asked(command, variables, seconds):
    """What a command prints; "" where there is no such program or it fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=variables)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def require_alone(variables, most):
    """Unusable when another process computes on the card: figures and time would not be ours alone."""
    smi = ["nvidia-smi", "--format=csv,noheader,nounits"]
    others = asked(smi + ["--query-compute-apps=pid,process_name,used_memory"], variables, most()).strip()
    if others and "Not Supported" not in others:
        raise Unusable("the GPU is in use by another process (pid, name, MiB: " + others.splitlines()[0] +
                       "); end it, or give --shared")
    used = asked(smi + ["--query-gpu=memory.used"], variables, most()).strip().splitlines()
    if used and used[0].strip().isdigit() and int(used[0]) > MIB_OF_NOBODY:
        raise Unusable(f"the GPU is in use by another process: {used[0].strip()} MiB of its memory are taken; end it, or "
                       "give --shared")


def facts(programs, work, variables, seconds, shared):
    """(status, line), after so many seconds at the latest. Writes environment.txt, doctor.json and device.json. Unusable
    where nothing can be checked."""
    end = time.monotonic() + seconds

    def left():
        return max(0.1, end - time.monotonic())

    def most():  # of nvidia-smi; a third, so that something is left for the program
        return min(seconds / 3, left())

    smi = asked(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"], variables, most())
    if smi and not shared:
        require_alone(variables, most)
    command = [programs.mrmf, "doctor", "--json", "--device", "cuda"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=left(), env=variables)
    except subprocess.TimeoutExpired:
        return "warned", f"mrmf doctor has not ended after {seconds:g} s; the check continues"
    found = None
    try:
        found = json.loads(done.stdout)
    except ValueError:
        pass
    if done.returncode or not found:
        said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise Unusable(f"mrmf doctor fails: {said}")
    if found["gpu_error"]:
        raise Unusable("the GPU cannot be used: " + " ".join(found["gpu_error"].split()))
    libraries = [line for line in done.stderr.splitlines() if "CUDA libraries" in line]
    (work / "environment.txt").write_text("\n".join(
        [smi.strip() or "no nvidia-smi", found["backend"], f"mrmf {found['mrmf']} ({found['git']}), {found['processor']}, "
         f"{found['cores']} cores, {found['memory_gib']:.0f} GiB", *libraries]) + "\n")
    (work / "doctor.json").write_text(json.dumps(found, indent=1) + "\n")
    (work / "device.json").write_text(json.dumps(found["gpu"]) + "\n")  # in the form of tests/cuda/h100.json
    return "ok", found["backend"]


def card(work):
    """The card's name, as cuDNN has it."""
    try:
        return json.loads((work / "device.json").read_text())["deviceName"]
    except (OSError, ValueError, TypeError, KeyError):
        return "unknown card"


def file_name(name):
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") + ".json"
