#!/usr/bin/env python3
"""The check on a GPU, in two calls of under five minutes; steps.py lists what they do and why. Each step leaves a line on
the page and its files in one archive at once, so that whatever ends the check, what was found is there.

    tests/gpu/check.py [first|second|both] [--build BUILD]        in a source tree (make gpu-check does both)
    gpu/check.py first --out $OUT                                 in a bundle (docs/gpu.md)
    gpu/check.py second --out $OUT --before gpu-check-first.tar.gz

A bundle needs python3 and the usual small tools of a GPU machine, but neither MPI nor HDF5 nor a compiler nor a network.
--out FOLDER gets gpu-check-CALL.tar.gz (text and JSON), the page gpu.md (--page names another place) and PyTorch's figures
for this card, whose place is tests/gpu/peers. --before names the archive of an earlier call: its plans are used, and its
steps stand on the same page. TORCH_PYTHON names the interpreter that has PyTorch. --trial: small networks and long limits,
for an emulated device.
Exit code: 0 all steps passed, or were skipped or short of time, which the page says; 1 a step failed; 69 no GPU that can be
used, and why.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time

sys.dont_write_bytecode = True
import judges  # noqa: E402
import machine  # noqa: E402
import results  # noqa: E402
import steps  # noqa: E402

PACKED = (".txt", ".json", ".jsonl", ".tsv", ".csv", ".md")
PACKED_BYTES = 4_000_000
SLACK = 10  # of a trial: an emulated device, on a machine that does other work, too


def write_whole(path, text):
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text)
    partial.replace(path)


class Processes:
    """Commands side by side, each in a process group of its own, which a time limit or the check's end takes down."""

    def __init__(self):
        self._lock = threading.Lock()
        self._running = {}
        self._ended = False

    def run(self, words, log, variables, seconds):
        """The exit code; None when it had to be ended. What it says is added to the file `log`."""
        with open(log, "ab") as file:
            with self._lock:
                if self._ended:
                    return None
                try:
                    process = subprocess.Popen(words, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                               env=variables, start_new_session=True)
                except OSError as error:
                    file.write(f"{words[0]}: {error.strerror}\n".encode())
                    return 127
                self._running[process.pid] = process
            try:
                return process.wait(timeout=max(0.1, seconds))
            except subprocess.TimeoutExpired:
                return None
            finally:
                self._kill(process)
                with self._lock:
                    del self._running[process.pid]

    @staticmethod
    def _kill(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)  # what it started, too
        except (ProcessLookupError, PermissionError):
            pass
        process.wait()

    def end(self):
        with self._lock:
            self._ended = True
            for process in self._running.values():
                self._kill(process)


class Check:
    def __init__(self, options):
        self.options = options
        self.programs = machine.Programs(options.build)
        self.slack = SLACK if options.trial else 1
        self.out = pathlib.Path(options.out).resolve()
        self.work = pathlib.Path(options.work).resolve()
        self.page = pathlib.Path(options.page).resolve()
        self.processes = Processes()
        self.rows = []
        self.call = ""

    def prepare(self):
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.out.mkdir(parents=True, exist_ok=True)
        os.chdir(self.work)
        if self.options.before:
            with tarfile.open(self.options.before) as archive:
                for member in archive:
                    if member.isfile() and not member.name.startswith(("/", "..")):
                        archive.extract(member, self.work)
        self.variables = machine.environment(self.programs, self.work, self.options.trial)

    # One command.

    def places(self, step):
        tool = machine.tool(step.needs) if step.needs else ""
        places = self.programs.places()
        sizes = {name: words.format_map(places) for name, words in steps.SIZES[bool(self.options.trial)].items()}
        return {**places, **sizes, "tool": tool or "", "card": shlex.quote(machine.card(self.work)),
                "seconds": str(step.seconds * self.slack)}

    def commands(self, step):
        """{name: command lines}. Of cases, one for each."""
        if not step.cases:
            return {name: (lines,) if isinstance(lines, str) else lines for name, lines in step.commands.items()
                    if not self.options.trial or steps.in_trial(step, name)}
        wanted = self.options.cases or step.cases
        words = [self.programs.unit, "--list-test-cases", f"--test-case={wanted}", f"--test-case-exclude={step.but}"]
        listed = subprocess.run(words, capture_output=True, text=True, env=self.variables).stdout.splitlines()
        names = [line.strip() for line in listed if line.strip() and not line.startswith(("[doctest]", "==="))]
        # A comma would part two filters; a question mark stands for any letter.
        return {name: ("{unit} " + shlex.quote("--test-case=" + name.replace(",", "?")),) for name in names}

    def one(self, step, name, lines, deadline):
        """(status, what it said) of a command."""
        log = self.work / ("log-" + "".join(c if c.isalnum() else "-" for c in f"{step.name}-{name}")[:100] + ".txt")
        cores = max(1, len(os.sched_getaffinity(0)) // step.at_once)
        variables = {"OMP_NUM_THREADS": str(cores), **self.variables}
        for line in lines:
            filled = line.format_map(self.places(step))
            left = deadline - time.monotonic()
            if left <= 0:
                return "not run", "no time was left for it"
            begin = log.stat().st_size if log.exists() else 0
            code = self.processes.run(shlex.split(filled), log, variables, left)
            text = log.read_bytes()[begin:].decode(errors="replace")
            if code is None:
                return "FAILED", f"not done after {step.seconds * self.slack} s; last line: {judges.last_line(text)}"
            status, said = judges.JUDGES[step.judge](code, text, filled)
            if status not in ("ok", "none"):
                break
        return status, said

    # One step.

    def step(self, step):
        if step.judge == "facts":
            return machine.facts(self.programs, self.work, self.variables, step.seconds * self.slack, self.options.shared)
        if step.needs and not machine.tool(step.needs):
            return "skipped", f"{step.needs} is not on this machine"
        deadline = time.monotonic() + step.seconds * self.slack
        commands = self.commands(step)
        if not commands:
            return "FAILED", "there is no such test case"
        with concurrent.futures.ThreadPoolExecutor(step.at_once) as pool:
            futures = {name: pool.submit(self.one, step, name, lines, deadline) for name, lines in commands.items()}
            outcomes = {name: future.result() for name, future in futures.items()}
        return self.sum_up(step, outcomes)

    @staticmethod
    def sum_up(step, outcomes):
        """(status, line) of a step: the worst of its commands, and the names of all that are not well."""
        of = {}
        for name, (status, said) in outcomes.items():
            of.setdefault(status, []).append(f"{name}: {said}")
        if len(outcomes) == 1:
            (status, said), = outcomes.values()
            return ("short" if status == "not run" else status), said
        well = len(of.get("ok", []))
        line = f"{well} of {len(outcomes) - len(of.get('none', []))}"
        line += " cases that compute on the device passed" if step.cases else " ok"
        if step.cases and "none" in of:
            line += f", {len(of['none'])} others use none"
        for status in ("FAILED", "warned", "skipped", "short", "not run"):
            if status in of:
                line += f"; {status}: " + "; ".join(of[status])
        if "FAILED" in of or (step.cases and not well and "not run" not in of):
            return "FAILED", line
        if "not run" in of or "short" in of:
            return "short", line
        if "warned" in of:
            return "warned", line
        return ("skipped" if not well else "ok"), line

    def run(self, call):
        self.call = call
        for step in steps.CALLS[call]:
            begin = time.monotonic()
            if step.name in self.options.left_out:
                self.note(step, "skipped", begin, "left out by --leave-out")
                continue
            try:
                status, said = self.step(step)
            except machine.Unusable as reason:
                self.note(step, "FAILED", begin, str(reason))
                raise
            self.note(step, status, begin, said)

    def note(self, step, status, begin, said):
        row = {"call": self.call, "name": step.name, "status": status, "seconds": round(time.monotonic() - begin, 1),
               "limit": step.seconds, "said": said}
        self.rows.append(row)
        with open(self.work / "steps.jsonl", "a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{row['seconds']:6.1f} s  {status:8} {step.name}: {said[:300]}", flush=True)
        self.leave()

    # What is left.

    def leave(self):
        """Page, archive and PyTorch's figures, each replaced whole."""
        planned = [(call, step.name) for call in self.options.calls for step in steps.CALLS[call]]
        text = results.page(self.work, planned)
        self.page.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.work / "page.md", text)
        write_whole(self.page, text)
        peers = results.load(self.work / "peers.json", "networks")
        if peers and peers["networks"]:
            write_whole(self.out / ("pytorch-" + machine.file_name(machine.card(self.work))), json.dumps(peers, indent=1) + "\n")
        self.pack(self.out / f"gpu-check-{self.call}.tar.gz")

    def pack(self, target):
        """Text and JSON, the largest files left out as far as they would make it too large; left-out.txt names them."""
        files = sorted((path for path in self.work.rglob("*") if path.is_file() and path.suffix in PACKED and
                        path.name != "left-out.txt"), key=lambda path: path.stat().st_size)
        partial = target.with_suffix(".partial")
        left_out = []
        while True:
            (self.work / "left-out.txt").write_text("".join(f"{path.relative_to(self.work)}\n" for path in left_out))
            with tarfile.open(partial, "w:gz", compresslevel=6) as archive:
                for path in [*files, self.work / "left-out.txt"]:
                    archive.add(path, str(path.relative_to(self.work)))
            if partial.stat().st_size < PACKED_BYTES or not files:
                break
            left_out.append(files.pop())
        partial.replace(target)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("call", nargs="?", choices=["first", "second", "both"], default="first")
    parser.add_argument("--build", help="build folder of a source tree")
    parser.add_argument("--out", help="folder for the archive and the page")
    parser.add_argument("--page", help="file for the page")
    parser.add_argument("--work", help="folder for all else, made anew: of what it holds, results alone go to --out")
    parser.add_argument("--before", help="archive of an earlier call")
    parser.add_argument("--shared", action="store_true", help="other processes may compute on the GPU")
    parser.add_argument("--trial", action="store_true", default=bool(os.environ.get("TRIAL")), help="on an emulated device")
    parser.add_argument("--cases", default=os.environ.get("CASES", ""), help="filter of test cases, in place of the steps'")
    parser.add_argument("--leave-out", metavar="STEPS", default="", help="names of steps, separated by semicolons")
    options = parser.parse_args(arguments)
    options.left_out = [name.strip() for name in options.leave_out.split(";") if name.strip()]
    for name in options.left_out:
        if name not in [step.name for call in steps.CALLS.values() for step in call]:
            parser.error(f"there is no step '{name}'; tests/gpu/steps.py lists them")
    bundle = (machine.HERE.parent / "bin/mrmf").exists()
    root = machine.HERE.parents[1]
    options.out = options.out or ("." if bundle else str(root / "build/gpu"))
    options.page = options.page or (options.out + "/gpu.md" if bundle else str(root / "docs/results/gpu.md"))
    options.work = options.work or str(machine.HERE.parent / "gpu-check" if bundle else root / "build/gpu-check")
    options.before = options.before and str(pathlib.Path(options.before).resolve())
    options.calls = ["first", "second"] if options.call == "both" else [options.call]
    return options


def main(arguments=None):
    options = parse(arguments)
    begin = time.monotonic()
    check = None

    def told_to_end(*_):
        if check:
            check.processes.end()  # else the threads that wait for them would be waited for
        raise SystemExit(143)

    signal.signal(signal.SIGTERM, told_to_end)
    try:
        check = Check(options)
        check.prepare()
        for call in options.calls:
            check.run(call)
    except machine.Unusable as reason:
        print(f"gpu-check: {reason}", file=sys.stderr)
        return 69
    except (OSError, tarfile.TarError) as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return 2
    finally:
        if check:
            check.processes.end()
    count = {status: sum(row["status"] == status for row in check.rows) for status in ("FAILED", "warned", "skipped", "short")}
    print(f"gpu-check: {check.page}, {len(check.rows)} steps, " + ", ".join(f"{n} {s}" for s, n in count.items()) +
          f", {time.monotonic() - begin:.0f} s")
    return 1 if count["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
