#!/usr/bin/env python3
"""Faults of many kinds for every command, each judged alike (judge.py): the exit code is of the table, the message names
the thing, what was there before is unchanged or whole, nothing half-made is left, and the same command started again
ends with the bits of an undisturbed run. docs/reliability.md has the table of a long run.

    tests/faults/run.py --count 1000            all kinds in turn, cases at random
    tests/faults/run.py --seconds 120           as many as fit
    tests/faults/run.py --seed 7 --only 31      one of them again, with all that it printed

The environment says what is tried: MRMF (build/mrmf) and MRMF_FAULT_SHIM (tests/libfault_shim.so beside it). Full and
read-only disks need mounts in a namespace of our own; where the system has none they are left out, which is said.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cases  # noqa: E402
import judge  # noqa: E402
import kinds  # noqa: E402
import process  # noqa: E402

OWN_NAMESPACE = "MRMF_FAULTS_NAMESPACE"


@dataclasses.dataclass
class Verdict:
    index: int
    kind: str
    case: str
    what: str
    outcome: str
    problems: list
    code: int | None
    message: str
    seconds: float


class FailsUndisturbed(Exception):
    def __init__(self, case, done):
        super().__init__(case.name)
        self.case, self.done = case, done


class Trials:
    def __init__(self, options, work):
        self.options, self.work = options, pathlib.Path(work)
        self.templates = cases.Templates(self.work / "templates")
        self.references = {}
        self.locks = collections.defaultdict(threading.Lock)
        self.cases = [case for case in cases.CASES.values() if re.search(options.case, case.name)]
        self.kinds = [name for name in kinds.KINDS if re.search(options.kind, name)]
        self.mounts = can_mount(self.work)
        if not self.mounts:
            self.kinds = [name for name in self.kinds if not name.startswith(("disk", "no more files"))]
            print("faults: no mounts here: full and read-only disks are left out")

    def reference(self, case):
        with self.locks[case.name]:
            if case.name not in self.references:
                folder = self.work / "references" / case.name.replace(" ", "-")
                command = process.Command(case.words, case.ranks, {"call": "none", "match": f"{folder}/*"})
                for _ in range(3):
                    self.templates.copy(case, folder)
                    done = process.run(command, folder)
                    if not done.launcher_hung:
                        break
                    shutil.rmtree(folder)
                if done.code != 0:
                    shutil.rmtree(folder, ignore_errors=True)
                    raise FailsUndisturbed(case, done)
                self.references[case.name] = judge.Reference(judge.outputs(case, folder), judge.printed(done.stdout),
                                                             judge.snapshot(folder), done.seconds, done.calls,
                                                             size_of(folder))
                shutil.rmtree(folder)
            return self.references[case.name]

    def fault(self, index):
        """The index-th fault of this seed: the kinds in turn, a case at random among those that it can meet."""
        rng = random.Random(f"{self.options.seed}/{index}")
        kind = self.kinds[index % len(self.kinds)]
        # Costly cases come seldom, but they come.
        left = [case for case in self.cases for _ in range(max(1, round(6 * case.weight / case.cost)))]
        while left:
            case = rng.choice(left)
            fault = kinds.KINDS[kind][1](rng, case, self.reference(case))
            if fault is not None:
                return kind, case, fault
            left = [other for other in left if other is not case]
        return kind, None, None

    def trial(self, index):
        started = time.monotonic()
        try:
            kind, case, fault = self.fault(index)
        except FailsUndisturbed as error:
            return Verdict(index, "none", error.case.name, "undisturbed", "lost",
                           [f"it fails undisturbed, exit code {error.done.code}: {error.done.output}"], error.done.code, "", error.done.seconds)
        if case is None:
            return None
        place = self.work / f"fault-{index}"
        place.mkdir()
        try:
            with Disk(place, fault, self.reference(case)) as disk:
                self.templates.copy(case, disk.folder)
                done, outcome, problems = self.judged(case, fault, disk)
        except (OSError, ValueError, subprocess.SubprocessError) as error:  # ours, not the program's
            return Verdict(index, kind, case.name, fault.what, "lost", [f"the test itself: {error!r}"], None, "",
                           time.monotonic() - started)
        finally:
            if not self.options.keep:
                shutil.rmtree(place, ignore_errors=True)
        return Verdict(index, kind, case.name, fault.what, outcome, problems, done.code,
                       (done.errors() or [judge.tail(done)])[0], time.monotonic() - started)

    def judged(self, case, fault, disk):
        reference, folder = self.reference(case), disk.folder
        if fault.prepare:
            fault.prepare(folder)
        before = judge.snapshot(folder)
        disk.close_in()
        command = process.Command(case.words, case.ranks, fault.settings, fault.limits, fault.during,
                                  fault.stdout)
        if fault.settings:
            command.fault = {key: value for key, value in fault.settings.items() if key != "pattern"}
            command.fault["match"] = f"{folder}/{fault.settings.get('pattern', '*')}"
        done = process.run(command, folder)
        disk.open_up()
        if self.options.only is not None:
            print(f"{done.output}\nexit code {done.code}; faults that came about: {done.fired}")
        after = judge.snapshot(folder)
        problems = judge.exit_problems(fault, done)
        problems += judge.file_problems(case, fault, before, after, folder, reference, done.code)
        if done.code == 0 and fault.must_fail and done.fired:
            problems.append("exit code 0, and not everything is on disk")
        if done.code == 0:
            if not fault.changes_input:
                problems += [f"exit code 0, and {what}" for what in self.result_problems(case, folder, before, done, fault)]
            outcome = "other input, done" if fault.changes_input else "the same bits"
            if not fault.changes_input:
                return done, outcome, problems
        else:
            outcome = "stopped" if done.code in (75, None) or done.code < 0 or done.code > 128 else "error"
        if fault.repair:
            fault.repair(folder)
        problems += self.again(case, fault, folder, judge.snapshot(folder))
        return done, outcome, problems

    def result_problems(self, case, folder, before, done, fault):
        reference = self.reference(case)
        found = {name: what for name, what in judge.outputs(case, folder).items()
                 if name in reference.outputs or name not in before}
        problems = judge.differences(found, reference.outputs)
        if fault.leaves:
            problems = [what for what in problems if not what.endswith("should not be")]
        if case.prints and judge.printed(done.stdout) != reference.printed:
            problems.append("what it prints differs" if fault.stdout is None else "what it prints is lost")
        return problems

    def again(self, case, fault, folder, before):
        """The same command, undisturbed; over a finished output only if that is asked for."""
        plain = dataclasses.replace(fault, deadly=frozenset(), names=[], stdout=None)
        done = process.run(process.Command(case.words, case.ranks), folder)
        if done.code == 2 and "--overwrite" in done.output and "--overwrite" not in case.words:
            done = process.run(process.Command((*case.words, "--overwrite"), case.ranks), folder)
        if self.options.only is not None:
            print(f"== again\n{done.output}\nexit code {done.code}")
        if done.code != 0:
            return [f"started again it ends with exit code {done.code}: {judge.tail(done)}"]
        after = judge.snapshot(folder)
        # It continues from what other data had trained.
        other = fault.changes_input and any("checkpoints/phase-" in name for name in before)
        return [f"started again: {what}" for what in
                (*([] if other else self.result_problems(case, folder, before, done, plain)),
                 *judge.file_problems(case, dataclasses.replace(plain, kills=True), before, after, folder,
                                      self.reference(case), 0))]


class Disk:
    """The folder of a trial, on a small file system of its own where the fault is one."""

    def __init__(self, place, fault, reference):
        self.fault, self.reference = fault, reference
        self.mounted = place / "disk" if fault.mount else None
        self.folder = (self.mounted or place) / "case"

    def __enter__(self):
        if self.mounted:
            self.mounted.mkdir()
            mount("-t", "tmpfs", "-o", "size=64m", "tmpfs", self.mounted)
        return self

    def close_in(self):
        if not self.mounted:
            return
        option, share = self.fault.mount.split()
        usage = os.statvfs(self.mounted)
        if self.fault.read_only:
            mount("-o", "remount,ro", self.mounted)
        elif option == "size":
            used = (usage.f_blocks - usage.f_bfree) * usage.f_frsize
            mount("-o", f"remount,size={used + int(float(share) * self.reference.size)}", self.mounted)
        else:
            used = usage.f_files - usage.f_ffree
            mount("-o", f"remount,nr_inodes={used + int(float(share) * 2 * len(self.reference.after))}", self.mounted)

    def open_up(self):
        if self.mounted:
            mount("-o", "remount,rw,size=64m,nr_inodes=100000", self.mounted)

    def __exit__(self, *error):
        if self.mounted:
            subprocess.run(["umount", "-l", self.mounted], check=False)


def mount(*words):
    subprocess.run(["mount", *map(str, words)], check=True, capture_output=True)


def can_mount(work):
    place = work / "mount"
    place.mkdir()
    try:
        mount("-t", "tmpfs", "tmpfs", place)
        subprocess.run(["umount", place], check=True)
        return True
    except (OSError, subprocess.CalledProcessError):
        return False


def size_of(folder):
    return sum((path.stat().st_size + 4095) // 4096 * 4096 for path in folder.rglob("*") if path.is_file())


def in_own_namespace():
    """Starts this program again where it may mount, if it can be."""
    if os.environ.get(OWN_NAMESPACE):
        return
    for words in (["unshare", "--mount"], ["unshare", "--mount", "--map-root-user"]):
        if shutil.which("unshare") and subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0:
            os.execvpe(words[0], [*words, sys.executable, *sys.argv], dict(os.environ, **{OWN_NAMESPACE: "1"}))


OUTCOMES = ("the same bits", "error", "stopped", "other input, done")


def table(verdicts, not_tried):
    """Markdown."""
    lines = ["| fault | how it is tried | times | same bits at once | error told, then same bits | stopped or killed, then same bits "
             "| other input read | lost |", "|---|---|---|---|---|---|---|---|"]
    total = collections.Counter()
    for kind, (how, _) in kinds.KINDS.items():
        own = [verdict for verdict in verdicts if verdict.kind == kind]
        count = collections.Counter("lost" if verdict.problems else verdict.outcome for verdict in own)
        total.update(count)
        if own:
            lines.append(f"| {kind} | {how} | {len(own)} | " + " | ".join(str(count[name] or "") for name in (*OUTCOMES, "lost")) + " |")
        elif kind in not_tried:
            lines.append(f"| {kind} | {how} | not tried | | | | | |")
    lines.append(f"| all | | {len(verdicts)} | " + " | ".join(str(total[name]) for name in (*OUTCOMES, "lost")) + " |")
    return "\n".join(lines)


def options_of(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, help="of all random choices; printed; taken from the clock unless given")
    parser.add_argument("--count", type=int, default=0, help="so many faults")
    parser.add_argument("--seconds", type=float, default=0, help="so long, and what is under way then is finished")
    parser.add_argument("--first", type=int, default=0, help="number of the first fault")
    parser.add_argument("--only", type=int, help="this fault alone, with what the program prints")
    parser.add_argument("--kind", default="", help="kinds of faults with this in their name, a regular expression")
    parser.add_argument("--case", default="", help="cases with this in their name, a regular expression")
    parser.add_argument("--jobs", type=int, default=2, help="at once")
    parser.add_argument("--records", help="file to which a JSON line per fault is added")
    parser.add_argument("--table", help="file for the Markdown table, of all that --records has")
    parser.add_argument("--keep", action="store_true", help="keep the folders")
    options = parser.parse_args(arguments)
    if options.seed is None:
        options.seed = int(time.time())
    if options.only is not None:
        options.first, options.count, options.jobs = options.only, 1, 1
    if not options.count and not options.seconds:
        options.count = 1000
    return options


def tried(trials, options):
    """Verdicts, as they come."""
    end = time.monotonic() + options.seconds if options.seconds else float("inf")
    index, waiting = options.first, set()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        while waiting or (time.monotonic() < end and (not options.count or index < options.first + options.count)):
            while (len(waiting) < options.jobs and time.monotonic() < end and
                   (not options.count or index < options.first + options.count)):
                waiting.add(pool.submit(trials.trial, index))
                index += 1
            done, waiting = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                if future.result() is not None:
                    yield future.result()


def again_words(options, verdict):
    words = ["tests/faults/run.py", "--seed", str(options.seed), "--only", str(verdict.index)]
    for name in ("kind", "case"):
        if getattr(options, name):
            words += [f"--{name}", f"'{getattr(options, name)}'"]
    return " ".join(words)


def stopped(*_):
    process.end_all()
    os._exit(1)


def main(arguments):
    options = options_of(arguments)
    signal.signal(signal.SIGTERM, stopped)
    for path in (process.MRMF, process.SHIM):
        if not os.path.exists(path):
            sys.exit(f"faults: {path} is missing; run make")
    work = tempfile.mkdtemp(prefix="mrmf-faults-")
    print(f"faults: seed {options.seed}, {process.MRMF}", flush=True)
    verdicts, lost, started = [], 0, time.monotonic()
    try:
        trials = Trials(options, work)
        for verdict in tried(trials, options):
            verdicts.append(verdict)
            if options.records:
                with open(options.records, "a") as file:
                    file.write(json.dumps(dict(dataclasses.asdict(verdict), seed=options.seed)) + "\n")
            if verdict.problems:
                lost += 1
                print(f"LOST {verdict.index}: {verdict.kind}; {verdict.case}; {verdict.what}")
                for problem in verdict.problems:
                    print(f"    {problem}")
                print(f"    again: {again_words(options, verdict)}", flush=True)
            elif options.only is not None:
                print(f"{verdict.index}: {verdict.kind}; {verdict.case}; {verdict.what}: {verdict.outcome}")
            if len(verdicts) % 50 == 0:
                print(f"faults: {len(verdicts)} tried, {lost} with something lost, {time.monotonic() - started:.0f} s", flush=True)
    finally:
        if options.keep:
            print(f"faults: folders in {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)
    if options.table:
        recorded = [Verdict(**{key: value for key, value in json.loads(line).items() if key != "seed"})
                    for line in open(options.records)] if options.records else verdicts
        pathlib.Path(options.table).write_text(table(recorded, set(kinds.KINDS) - set(trials.kinds)) + "\n")
    names = {verdict.kind for verdict in verdicts}
    print(f"faults: {len(verdicts)} of {len(names)} kinds on {len({v.case for v in verdicts})} cases in "
          f"{time.monotonic() - started:.0f} s: {'nothing lost' if not lost else f'{lost} with something lost'}; seed {options.seed}")
    return 1 if lost or not verdicts else 0


if __name__ == "__main__":
    in_own_namespace()
    sys.exit(main(sys.argv[1:]))
