"""Makes many short simulations, by `mrmf ensemble` and by Merlin, kills on the way, and checks that each member is there
once. Prints what it measured, a line each.

    kills.py own --members 20000 --kills 5
    kills.py merlin --members 20000 --tasks 200
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import h5py

ROOT = pathlib.Path(__file__).resolve().parents[3]
HERE = pathlib.Path(__file__).resolve().parent
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


def done_in(folder):
    """Lines of the journals that call a member done."""
    return [json.loads(line[17:])["member"] for journal in pathlib.Path(folder).rglob("journal*.txt")
            for line in journal.read_text().splitlines() if '"row"' in line]


def lines_in(folder):
    return sum(journal.read_text().count("\n") for journal in pathlib.Path(folder).rglob("journal*.txt"))


def check(folder, members):
    """Every member once, in the journals and in the data set."""
    done = done_in(folder)
    with h5py.File(pathlib.Path(folder) / "data.h5") as file:
        rows = list(file["member"])
    files = sum(len(names) for _, _, names in os.walk(folder))
    print(f"{members} members: {len(set(done))} in the journals, {len(done) - len(set(done))} done twice, {len(rows)} rows, "
          f"{'each once' if rows == list(range(members)) else 'NOT each once'}; {files} files")
    if rows != list(range(members)) or sorted(done) != rows:
        sys.exit("members were lost or done twice")


def children(pid):
    try:
        found = [int(child) for task in os.listdir(f"/proc/{pid}/task")
                 for child in pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []
    return found + [below for child in found for below in children(child)]


def command_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def finish(command, folder, members, start, how):
    """Makes what is left, and says how long all has taken since `start`."""
    subprocess.run(command, env=ENVIRONMENT, check=True)
    seconds = time.monotonic() - start
    result = json.loads((folder / "result.json").read_text())
    print(f"mrmf ensemble {how}: {seconds:.1f} s, {1000 * seconds / members:.3f} ms a member; "
          f"{result['member_seconds']:.1f} s in the simulator, on two threads")
    check(folder, members)


def own(options):
    folder = options.folder / "own"
    shutil.rmtree(folder, ignore_errors=True)
    command = [options.program, "ensemble", HERE / "short.toml", "--set", f"ensemble.folder={folder}", "--set",
               f"design.members={options.members}"]
    start = time.monotonic()
    for kill in range(options.kills):
        wanted = (kill + 1) * options.members // (options.kills + 1)
        process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
        while process.poll() is None and lines_in(folder) < wanted:
            time.sleep(random.uniform(0, 0.05))
        process.kill()
        process.wait()
        print(f"killed (SIGKILL) with {len(done_in(folder))} members in the journal")
    finish(command, folder, options.members, start, f"with {options.kills} kills")
    shutil.rmtree(folder)
    finish(command, folder, options.members, time.monotonic(), "undisturbed")


def merlin(options):
    folder = options.folder / "merlin"
    shutil.rmtree(folder, ignore_errors=True)
    words = [ROOT / "jobs/merlin/run.sh", "--program", options.program, "--folder", folder, "--members", str(options.members), "--tasks",
             str(options.tasks), "--epochs", "1", "--design", HERE / "short.toml", *(["--venv", options.venv] if options.venv else [])]
    start = time.monotonic()
    process = subprocess.Popen(words, env=ENVIRONMENT)

    def study():
        return next(iter(sorted(folder.glob("mrmf_*"))), folder / "none")

    def wait_for(lines):
        while process.poll() is None and lines_in(study()) < lines:
            time.sleep(0.1)

    def kill(what):
        found = [pid for pid in children(process.pid) if what in command_of(pid)]
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        print(f"killed (SIGKILL) {len(found)} processes of {what} with {lines_in(study())} lines in the journals", flush=True)

    for share, what in ((0.2, "simulators"), (0.5, "redis-server"), (0.8, "")):
        wait_for(int(share * options.members))
        if what:
            kill(what)
        else:  # the node: everything at once
            found = [process.pid, *children(process.pid)]
            for pid in found:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            print(f"killed (SIGKILL) everything, {len(found)} processes, with {lines_in(study())} lines in the journals", flush=True)
        process.wait()
        process = subprocess.Popen([*words, "--continue", study()], env=ENVIRONMENT)
    if process.wait() != 0:
        sys.exit("the study did not end well")
    seconds = time.monotonic() - start
    print(f"Merlin with 3 kills: {seconds:.1f} s, {1000 * seconds / options.members:.3f} ms a member, {options.tasks} tasks")
    check(study() / "ensemble", options.members)
    print("files of the whole study:", sum(len(names) for _, _, names in os.walk(study())))
    shutil.rmtree(folder)
    start = time.monotonic()
    subprocess.run(words, env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - start
    print(f"Merlin undisturbed: {seconds:.1f} s, {1000 * seconds / options.members:.3f} ms a member, {options.tasks} tasks")
    check(study() / "ensemble", options.members)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("by", choices=("own", "merlin"))
    parser.add_argument("--members", type=int, default=20000)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--program", default=ROOT / "build/mrmf")
    parser.add_argument("--venv")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("runs/kills"))
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    {"own": own, "merlin": merlin}[options.by](options)


if __name__ == "__main__":
    main()
