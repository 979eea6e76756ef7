"""Ends a test cluster: when its standard input closes, because the test is done or was killed, it ends every process
that was started with the cluster's configuration and removes its folder. Usage: janitor.py FOLDER."""
import os
import pathlib
import shutil
import signal
import sys
import time


def processes_of(folder):
    """Those whose environment names the folder's slurm.conf: daemons, job steps, and what they started."""
    mark = f"SLURM_CONF={folder}/slurm.conf".encode()
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:
            pass  # gone meanwhile, or another user's
    return [pid for pid in found if pid != os.getpid()]


def main():
    folder = sys.argv[1]
    os.setsid()
    sys.stdin.read()
    deadline = time.monotonic() + 10
    number = signal.SIGTERM
    while processes := processes_of(folder):
        for pid in processes:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        if time.monotonic() > deadline - 8:
            number = signal.SIGKILL
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
