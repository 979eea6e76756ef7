"""check.py with stand-ins for the programs it calls: every step leaves its line at once, a failing, hanging or killed
command loses nothing of the others, nothing passes silently, and a GPU that cannot be used is one line. The real programs,
on the emulated device, are in test_calls.py."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import check  # noqa: E402
import steps as table  # noqa: E402
import torch_bench  # noqa: E402

# Stands in for mrmf, and for mpirun before it. FAKE_FAIL: a word of the command that makes it fail; FAKE_HANG: one that
# makes it hang.
PROGRAM = """#!/bin/sh
json="" folder="" ranks=1 graph=""
case "$1" in *mrmf) shift ;; --oversubscribe) shift 4 ;; esac
if [ "$1" = doctor ]; then
  [ "${FAKE_HANG:-}" != doctor ] || exec sleep 60
  echo "mrmf: CUDA libraries: all found" >&2
  echo "{\\"mrmf\\": \\"1\\", \\"git\\": \\"abc\\", \\"processor\\": \\"Fake\\", \\"cores\\": 2, \\"memory_gib\\": 3,
    \\"backend\\": \\"Fake H999 (1 GB)\\", \\"gpu_error\\": ${FAKE_GPU_ERROR:-null}, \\"gpu\\": {\\"deviceName\\": \\"Fake H999\\"}}"
  exit 0
fi
for word in "$@"; do
  [ "$word" != "${FAKE_FAIL:-}" ] || { echo "broken on purpose"; exit 1; }
  [ "$word" != "${FAKE_HANG:-}" ] || exec sleep 60
  case $word in run.folder=*) folder=${word#*=} ;; esac
  case $last in --json) json=$word ;; --graph) graph=$word ;; esac
  last=$word
done
case "$*" in *run.folder=two*|*run.grid*) ranks=2 ;; esac
loss=0.5
[ "$graph" != off ] || loss=${FAKE_LOSS:-0.5}
case "$1 $2" in
  "bench parity") text='{"losses": {"cpu": [1.0, 0.5], "device": [1.0, 0.5]}, "parameters_hash": "abc"}' ;;
  "bench gradients") text='{"gradients": [{"name": "conv1 weight", "distance": '${FAKE_DISTANCE:-0.004}', "along": 0.998}],
    "distance_tolerance": 0.3, "along_tolerance": 0.1}' ;;
  "bench training") text='{"samples_per_second": 1000.0, "step_seconds": 0.5, "losses": [1.0, '$loss'], "parameters_hash": "abc"}' ;;
esac
[ -z "$json" ] || echo "$text" >"$json"
if [ -n "$MRMF_KERNEL_TABLE" ]; then
  printf 'graph\\tcount\\tus\\tgap_us\\tregisters\\tblock\\tgrid\\tshared\\tname\\n1\\t9\\t5.5\\t0.5\\t32\\t256\\t99\\t0\\tAdam|x\\n' >"$MRMF_KERNEL_TABLE"
fi
[ -z "$folder" ] || { mkdir -p "$folder"; echo '{"ranks": '$ranks', "validation_loss": 0.3}' >"$folder/result.json"; head -c 3000000 /dev/urandom >"$folder/model.h5"; }
if [ "$2" = gradients ] && [ -n "${FAKE_DISTANCE:-}" ]; then echo "conv1 weight is off"; exit 4; fi
echo done
"""
UNIT = """#!/bin/sh
case "$*" in
  *--list-test-cases*)
    echo "[doctest] listing all test case names"
    for case in "layers: a, b" "layers: crashes" "operations: no backend" "cuda: steps"; do echo "$case"; done
    echo "[doctest] unskipped test cases passing the current filters: 4"; exit 0 ;;
  *"no backend"*) echo "cuda: 0 of 1 cases run"; exit 0 ;;
  *crashes*) [ -z "${FAKE_CRASH:-}" ] || kill -SEGV $$ ;;
esac
echo "${FAKE_CASES-cuda: 1 of 1 cases run}"
"""
# Runs the command behind its options; says what it was given.
SANITIZER = """#!/bin/sh
echo "$OMPI_MCA_ess_singleton_isolated $*" >>sanitizer-calls.txt
[ -z "${FAKE_REFUSAL:-}" ] || { echo "========= Error: $FAKE_REFUSAL"; exit 99; }
while [ "${1#--}" != "$1" ]; do case $1 in *=*) shift ;; *) shift 2 ;; esac; done
"$@"
echo "========= ERROR SUMMARY: 0 errors"
"""
NCU = """#!/bin/sh
[ -z "${FAKE_REFUSAL:-}" ] || { echo "==ERROR== ERR_NVGPUCTRPERM: $FAKE_REFUSAL"; exit 1; }
while [ "${1#--}" != "$1" ]; do case $1 in --log-file) log=$2; shift 2 ;; --csv) shift ;; *) shift 2 ;; esac; done
"$@"
cat >"$log" <<'END'
==PROF== Connected
"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","conv","gpu__time_duration.sum","us","1,500.0"
"0","conv","dram__bytes.sum","Gbyte","1.5"
"0","conv","lts__t_bytes.sum","Mbyte","3,000"
END
"""
SMI = """#!/bin/sh
case "$*" in
  *compute-apps*) [ -z "${FAKE_OTHER:-}" ] || echo "$FAKE_OTHER" ;;
  *memory.used*) echo "${FAKE_USED:-4}" ;;
  *) echo "Fake H999, 580.1, 1000 MiB" ;;
esac
"""
TORCH = """#!/bin/sh
exit 77
"""


class Fakes(unittest.TestCase):
    """The stand-ins lie as in a bundle."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="mrmf-test-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.out, self.work = self.folder / "out", self.folder / "gpu-check"
        for name in ("gpu", "bin", "tools"):
            (self.folder / name).mkdir()
        for file in [*HERE.glob("*.py"), HERE / "two_ranks.toml"]:
            shutil.copy(file, self.folder / "gpu")
        for path, text in (("bin/mrmf", PROGRAM), ("bin/mpirun", PROGRAM), ("bin/unit_tests", UNIT), ("tools/ncu", NCU),
                           ("tools/nvidia-smi", SMI), ("tools/compute-sanitizer", SANITIZER), ("torch", TORCH)):
            (self.folder / path).write_text(text)
            (self.folder / path).chmod(0o755)

    def command(self, *words):
        return [sys.executable, self.folder / "gpu/check.py", *words, "--out", self.out]

    def environment(self, **variables):
        return {"PATH": f"{self.folder}/tools:" + os.environ["PATH"], "HOME": str(self.folder), "CUDA_HOME": str(self.folder),
                "TORCH_PYTHON": str(self.folder / "torch"), **variables}

    def check(self, code, *words, **variables):
        """(output, page, {step: (status, what it said)})"""
        done = subprocess.run(self.command(*words), capture_output=True, text=True, timeout=300,
                              env=self.environment(**variables))
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        rows = [json.loads(line) for line in (self.work / "steps.jsonl").read_text().splitlines()]
        return done.stdout + done.stderr, (self.out / "gpu.md").read_text(), {
            f"{row['call']} {row['name']}": (row["status"], row["said"]) for row in rows}

    def failed(self, steps):
        return {name for name, (status, _) in steps.items() if status == "FAILED"}


class Table(unittest.TestCase):
    def test_the_limits_of_a_call_fit_its_time(self):
        for call, steps in table.CALLS.items():
            self.assertLessEqual(sum(step.seconds for step in steps), table.MOST_SECONDS[call])
            self.assertEqual(len({step.name for step in steps}), len(steps))
            self.assertTrue(all(step.why for step in steps))
        self.assertEqual(table.MOST_SECONDS, {"first": 285, "second": 300})

    def test_the_order_is_the_most_telling_first(self):
        self.assertEqual([step.name for step in table.FIRST], [
            "facts", "first steps", "cases", "gradients", "recorded equals eager", "parity", "speed", "PyTorch", "kernels"])
        self.assertEqual([step.name for step in table.SECOND], [
            "facts", "one step under ncu", "sanitizers", "two ranks on one card", "two ranks that share samples on one card",
            "long cases", "PyTorch, compiled"])
        # The precisions in which an answer is quickest come first; a network in bf16 hangs on most.
        self.assertEqual(list(table.FIRST[1].commands), [
            "neuron_inverter tf32", "cosmoflow tf32", "neuron_inverter bf16", "cosmoflow bf16"])

    def test_every_case_is_in_one_of_the_calls(self):
        """What the first call leaves out for the sake of time, the second one runs."""
        cases = {step.name: step for call in table.CALLS.values() for step in call if step.cases}
        self.assertEqual(cases["cases"].but, cases["long cases"].cases)
        self.assertEqual({step.at_once for step in cases.values()}, {6})


class Documented(unittest.TestCase):
    """What docs/gpu.md says of time, size and order."""

    def setUp(self):
        self.text = (HERE.parents[1] / "docs/gpu.md").read_text()
        self.section = self.text[self.text.index("## The check on a GPU"):self.text.index("### Gradients beside")]

    def says(self, words):
        self.assertIn(words, " ".join(self.text.split()))

    def test_the_table_is_that_of_the_steps(self):
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in self.section.splitlines() if line.startswith("|")]
        self.assertEqual(rows[0], ["first call", "s", "second call", "s"])
        for column, (call, steps) in zip((0, 2), table.CALLS.items()):
            told = [(row[column], int(row[column + 1])) for row in rows[2:] if row[column]]
            self.assertEqual([seconds for _, seconds in told], [step.seconds for step in steps], call)
            for (what, _), step in zip(told, steps):
                self.assertRegex(what, f"^{step.name}\\b")

    def test_numbers(self):
        step = {step.name: step for step in (*table.FIRST, *table.SECOND)}
        first, second = (sum(step.seconds for step in steps) for steps in table.CALLS.values())
        self.says(f"Its limits add up to {first} seconds, those of the second to {second}.")
        self.says("first steps: 20 of both networks, in tf32 and bf16")
        self.assertEqual(table.SIZES[False]["first"], "--first 20")
        self.assertEqual(len(step["first steps"].commands), 4)
        self.says("gradients beside the CPU's, in three precisions")
        self.assertEqual(len(step["gradients"].commands), 6)
        self.says("PyTorch: its three best variants")
        self.assertEqual(len(torch_bench.SETS["best"]), 3)
        self.says("Every test case has a process of its own, six at a time")
        self.assertEqual((step["cases"].at_once, step["long cases"].at_once), (6, 6))
        self.says("text and JSON, under 4 MB")
        self.assertEqual(check.PACKED_BYTES, 4_000_000)
        self.says("`build/mrmf-bundle.tar.xz` (26 MB, at most 40)")
        self.assertIn("readonly limit_mb=40\n", (HERE.parents[1] / "jobs/packaging/bundle.sh").read_text())
        self.says("128 samples of the Neuron Inverter and two cubes of 64x64x64, which are the sizes that the check runs")
        self.assertEqual(table.SIZES[False]["small_neuron_inverter"], "--preset neuron_inverter --batch 128")
        self.assertEqual(table.SIZES[False]["small_cosmoflow"], "--preset cosmoflow --sample 64x64x64x4 --batch 2")
        self.says("up to twice the bound the check warns, and fails beyond")  # judges.py, and below

    def test_make_makes_both_calls(self):
        self.says("`make gpu-check` makes both calls and writes `docs/results/gpu.md`")
        makefile = (HERE.parents[1] / "Makefile").read_text()
        self.assertRegex(makefile, r"\ngpu-check: all .*\n\t@tests/gpu/check.py both --build \$\(BUILD\)\n")
        options = check.parse(["both", "--build", "build"])
        self.assertEqual((options.calls, options.page), (["first", "second"], str(HERE.parents[1] / "docs/results/gpu.md")))


class Check(Fakes):
    def test_both_calls_leave_a_line_for_each_step(self):
        output, page, steps = self.check(0, "both")
        self.assertEqual(list(steps), [f"{call} {step.name}" for call in ("first", "second") for step in table.CALLS[call]])
        self.assertEqual(self.failed(steps), set())
        self.assertEqual(steps["first facts"], ("ok", "Fake H999 (1 GB)"))
        self.assertEqual(steps["first cases"][1], "3 of 3 cases that compute on the device passed, 1 others use none")
        self.assertEqual(steps["first PyTorch"][0], "skipped")
        self.assertIn("Fake H999, 580.1", page)
        self.assertIn("| cosmoflow | bf16 | 0.004 (conv1 weight) | 0.3 | 0.9980 (conv1 weight) |", page)
        self.assertIn("| bf16 | 1,000 | 500.000 |", page)
        self.assertIn("| Adam\\|x | 1 | 5.5 | 0.5 | 32 | 256 | 99 | 0 |", page)
        self.assertIn("| conv | 0 | 1500.0 | 1500.0 | 3000.0 | 1.00 |", page)
        self.assertIn("**What did not run:** PyTorch: ", page)
        self.assertIn("0 FAILED", output)
        calls = (self.work / "sanitizer-calls.txt").read_text().splitlines()
        self.assertEqual(len(calls), 3)
        self.assertTrue(all(call.startswith("1 --target-processes all ") for call in calls), calls)  # no daemon of MPI's
        self.assertEqual(sum("fused layers in low precision" in call for call in calls), 2)

    def test_steps_that_are_left_out_say_so(self):
        _, page, steps = self.check(0, "first", "--leave-out", "PyTorch; speed")
        self.assertEqual(steps["first PyTorch"], ("skipped", "left out by --leave-out"))
        self.assertEqual(steps["first speed"][0], "skipped")
        self.assertEqual(steps["first kernels"][0], "ok")
        self.assertIn("left out by --leave-out", page)
        done = subprocess.run(self.command("--leave-out", "speeed"), capture_output=True, text=True, env=self.environment())
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no step 'speeed'", done.stderr)

    def test_what_is_packed_is_text_and_small_and_carries_into_the_second_call(self):
        self.check(0, "first")
        archive = self.out / "gpu-check-first.tar.gz"
        (self.folder / "plans").mkdir()
        with tarfile.open(archive) as file:
            self.assertIn("steps.jsonl", file.getnames())
            self.assertIn("device.json", file.getnames())
            file.extractall(self.folder / "plans")
        cache = self.folder / "plans/cache/mrmf"
        cache.mkdir(parents=True)
        (cache / "plans.json").write_text('{"plans": "carried"}')
        with tarfile.open(archive, "w:gz") as file:
            file.add(self.folder / "plans", ".")
        _, page, steps = self.check(0, "second", "--before", str(archive))
        self.assertEqual((self.work / "cache/mrmf/plans.json").read_text(), '{"plans": "carried"}')
        self.assertIn("first speed", steps)
        self.assertIn("| second | two ranks on one card | ok |", page)
        self.assertIn("| bf16 | 1,000 | 500.000 |", page)
        with tarfile.open(self.out / "gpu-check-second.tar.gz") as file:
            names = file.getnames()
        self.assertIn("two-ranks/result.json", names)
        self.assertFalse([name for name in names if name.endswith(".h5")])
        self.assertLess((self.out / "gpu-check-second.tar.gz").stat().st_size, 4_000_000)

    def test_the_largest_is_left_out_of_an_archive_that_would_be_too_large(self):
        self.check(0, "first")
        before = self.folder / "large"
        before.mkdir()
        (before / "large.txt").write_bytes(os.urandom(5_000_000))
        with tarfile.open(self.folder / "before.tar", "w") as file:
            file.add(before / "large.txt", "large.txt")
        self.check(0, "first", "--before", str(self.folder / "before.tar"))
        with tarfile.open(self.out / "gpu-check-first.tar.gz") as file:
            self.assertEqual(file.extractfile("left-out.txt").read(), b"large.txt\n")
            self.assertIn("page.md", file.getnames())
            self.assertNotIn("large.txt", file.getnames())

    def test_a_fault_costs_one_case(self):
        output, page, steps = self.check(1, "first", FAKE_CRASH="1", FAKE_LOSS="0.25", FAKE_FAIL="fp32")
        self.assertEqual(self.failed(steps), {"first cases", "first gradients", "first recorded equals eager", "first parity"})
        self.assertRegex(steps["first cases"][1], "^2 of 3 cases .* FAILED: layers: crashes: exit code -11")
        self.assertEqual(steps["first recorded equals eager"][1].count("losses of step 2 differ: eager 0.25, graph 0.5"), 2)
        self.assertIn("4 of 6 ok; FAILED: neuron_inverter fp32: exit code 1: broken on purpose", steps["first gradients"][1])
        self.assertIn("Failed: cases; gradients; recorded equals eager; parity.", page)

    def test_green_without_the_device_is_a_failure(self):
        _, _, steps = self.check(1, "first", FAKE_CASES="")
        self.assertIn("first cases", self.failed(steps))

    def test_gradients_up_to_twice_the_bounds_are_a_warning(self):
        _, _, steps = self.check(0, "first", FAKE_DISTANCE="0.5")
        self.assertEqual(steps["first gradients"][0], "warned")
        _, _, steps = self.check(1, "first", FAKE_DISTANCE="0.7")
        self.assertEqual(self.failed(steps), {"first gradients"})

    def test_tools_that_the_machine_refuses_are_skipped(self):
        _, page, steps = self.check(0, "second", FAKE_REFUSAL="device not supported")
        for name in ("second sanitizers", "second one step under ncu"):
            self.assertEqual(steps[name][0], "skipped")
            self.assertIn("device not supported", steps[name][1])
        self.assertIn("**What did not run:** one step under ncu: ", page)

    def test_what_was_done_is_there_when_it_is_ended_from_outside(self):
        process = subprocess.Popen(self.command("first"), stdout=subprocess.PIPE, text=True,
                                   env=self.environment(FAKE_HANG="gradients"))
        for line in process.stdout:
            if " cases:" in line:  # the next step hangs
                break
        while not list(self.work.glob("log-gradients-*")):
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        process.stdout.close()
        self.assertEqual(process.wait(timeout=20), 143)  # without waiting for the step
        page = (self.out / "gpu.md").read_text()
        self.assertIn("| first | cases | ok |", page)
        self.assertIn("**What did not run:** gradients (first call); ", page)
        with tarfile.open(self.out / "gpu-check-first.tar.gz") as file:
            self.assertIn("steps.jsonl", file.getnames())


class Limits(Fakes):
    def test_a_hang_is_ended_at_the_steps_limit_and_stops_nothing(self):
        """With limits of a second each."""
        path = self.folder / "gpu/steps.py"
        path.write_text(path.read_text() + "\nfor _steps in (FIRST, SECOND):\n  for _step in _steps:\n    if _step.judge != 'facts': "
                        "object.__setattr__(_step, 'seconds', 1)\n")
        _, page, steps = self.check(1, "first", FAKE_HANG="--deterministic")
        self.assertRegex(steps["first first steps"][1],
                         "FAILED: neuron_inverter tf32: not done after 1 s; .*not run: cosmoflow tf32: no time was left for it")
        self.assertEqual(steps["first parity"][0], "ok")
        self.assertEqual(len(steps), len(table.FIRST))


    def test_a_program_that_takes_long_to_say_what_it_finds_stops_nothing(self):
        """It may read libraries from a cold disk; with a limit of a second."""
        path = self.folder / "gpu/steps.py"
        path.write_text(path.read_text() + "\nobject.__setattr__(FIRST[0], 'seconds', 1)\n")
        _, page, steps = self.check(0, "first", FAKE_HANG="doctor")
        self.assertEqual(steps["first facts"], ("warned", "mrmf doctor has not ended after 1 s; the check continues"))
        self.assertEqual(len(steps), len(table.FIRST))
        self.assertIn("not known: the step \"facts\" left nothing", page)


class Unusable(Fakes):
    """One line, in the first step, and nothing else is tried."""

    def refused(self, text, *words, **variables):
        output, page, steps = self.check(69, "first", *words, **variables)
        self.assertEqual(len(steps), 1)
        line = output.strip().splitlines()[-1]
        self.assertTrue(line.startswith("gpu-check: "), output)
        self.assertIn(text, line)
        self.assertIn("kernels (first call)", page)

    def test_a_gpu_that_cannot_be_used(self):
        self.refused("the GPU cannot be used: the driver is too old", FAKE_GPU_ERROR='"the driver\\\\n is too old"')

    def test_a_gpu_in_use(self):
        self.refused("in use by another process (pid, name, MiB: 12, python3, 900)", FAKE_OTHER="12, python3, 900")
        self.refused("20000 MiB of its memory are taken", FAKE_USED="20000")
        self.check(0, "first", "--shared", FAKE_OTHER="12, python3, 900")

    def test_programs_that_are_not_there(self):
        (self.folder / "bin/unit_tests").unlink()
        done = subprocess.run(self.command("first"), capture_output=True, text=True, env=self.environment())
        self.assertEqual(done.returncode, 69)
        self.assertIn("unit_tests is missing", done.stderr)

    def test_an_archive_that_is_not_there(self):
        done = subprocess.run(self.command("second", "--before", "nowhere.tar.gz"), capture_output=True, text=True,
                              env=self.environment())
        self.assertEqual(done.returncode, 2)
        self.assertIn("nowhere.tar.gz", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
