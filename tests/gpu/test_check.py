"""check.sh without a GPU and, with stand-ins for the programs it calls, with one: every step leaves its line, a failing
or hanging step does not stop the next, nothing passes silently."""
import os
import pathlib
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/tmp")}

# Stands in for mrmf, and for mpirun before it. FAKE_FAIL: a word of the command that makes it fail; FAKE_HANG: one that
# makes it hang.
PROGRAM = """#!/bin/sh
json="" folder="" ranks=1 graph=""
for word in "$@"; do
  [ "$word" != "${FAKE_FAIL:-}" ] || { echo "broken on purpose"; exit 1; }
  [ "$word" != "${FAKE_HANG:-}" ] || sleep 60
  case $word in run.folder=*) folder=${word#*=} ;; run.ranks_share_gpu=true) ranks=2 ;; esac
  case $last in --json) json=$word ;; --graph) graph=$word ;; esac
  last=$word
done
loss=0.5
[ "$graph" != on ] || loss=${FAKE_LOSS:-0.5}
case "$1 $2" in
  "bench parity") text='{"losses": {"cpu": [1.0, 0.5], "device": [1.0, '$loss']}, "parameters_hash": "abc"}' ;;
  "bench gradients") text='{"gradients": [{"name": "conv1 weight", "distance": 0.004, "along": 0.998}],
    "distance_tolerance": 0.3, "along_tolerance": 0.1}' ;;
  "bench training") text='{"samples_per_second": 1000.0, "step_seconds": 0.5}' ;;
  "bench layers") text='{"layers": [{"name": "conv1", "forward_us": 10, "backward_us": 30, "roofline_us": 20}],
    "step_us": 40, "step_roofline_us": 20}' ;;
esac
[ -z "$json" ] || echo "$text" >"$json"
[ -z "$folder" ] || { mkdir -p "$folder"; echo '{"ranks": '$ranks', "validation_loss": 0.3}' >"$folder/result.json"; }
echo done
"""
UNIT = """#!/bin/sh
case "$*" in *--count*) echo "[doctest] unskipped test cases passing the current filters: 42"; exit 0 ;; esac
echo "${FAKE_CASES-cuda: 42 of 42 cases run}"
"""
SMI = """#!/bin/sh
case "$*" in -L) echo "GPU 0: Fake (UUID: x)" ;; *) echo "Fake, 580.1, 1000 MiB" ;; esac
"""
TORCH = """#!/bin/sh
exit 1
"""
# Runs the command behind its options; says what it was given.
SANITIZER = """#!/bin/sh
echo "$OMPI_MCA_ess_singleton_isolated $*" >>"$KEEP/sanitizer-calls"
while [ "${1#--}" != "$1" ]; do case $1 in *=*) shift ;; --error-exitcode|--tool|--target-processes|--report-api-errors) shift 2 ;; esac; done
"$@"
echo "========= ERROR SUMMARY: 0 errors"
"""
STEPS = 30


class Check(unittest.TestCase):
    """The stand-ins lie as in a bundle."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="mrmf-test-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "gpu").mkdir()
        (self.folder / "bin").mkdir()
        for name in ("check.sh", "results.py", "compare.py", "two_ranks.toml"):
            shutil.copy(HERE / name, self.folder / "gpu")
        for path, text in (("bin/mrmf", PROGRAM), ("bin/mpirun", PROGRAM), ("bin/unit_tests", UNIT),
                           ("smi/nvidia-smi", SMI), ("smi/compute-sanitizer", SANITIZER), ("torch", TORCH)):
            file = self.folder / path
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
            file.chmod(0o755)

    def check(self, code, **environment):
        """(output, page, {step: (status, detail)})"""
        results = self.folder / "gpu.md"
        variables = {**ENVIRONMENT, "RESULTS": str(results), "TORCH_PYTHON": str(self.folder / "torch"),
                     "KEEP": str(self.folder / "kept"), **environment}
        variables["PATH"] = f"{self.folder}/smi:" + variables["PATH"]
        done = subprocess.run([self.folder / "gpu/check.sh"], capture_output=True, text=True, timeout=400,
                              env=variables)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        rows = [line.split("\t") for file in sorted((self.folder / "kept").glob("steps-*.tsv"))
                for line in file.read_text().splitlines()]
        return done.stdout, results.read_text(), {row[0]: (row[1], row[3]) for row in rows}

    def failed(self, steps):
        return {name for name, (status, _) in steps.items() if status == "FAILED"}

    def test_all_steps_leave_a_line(self):
        output, page, steps = self.check(0)
        self.assertEqual(len(steps), STEPS, steps.keys())
        self.assertEqual(self.failed(steps), set())
        self.assertEqual(steps["unit tests on cuda"], ("ok", "cuda: 42 of 42 cases run"))
        self.assertEqual(steps["PyTorch's speed, cosmoflow"][0], "skipped")
        self.assertIn("equal to the last bit", steps["parity and graph equals eager, cosmoflow bf16"][1])
        self.assertIn("| cosmoflow | bf16 | 0.004 (conv1 weight) | 0.3 | 0.9980 (conv1 weight) |", page)
        self.assertIn("Fake, 580.1", page)
        self.assertIn("| bf16 | 1,000 | 0.0 % of 2 |", page)
        self.assertIn("0 failed", output)

    def test_failures_stop_nothing_and_are_the_exit_code(self):
        """A command that fails, a captured graph that differs, a green test binary that says nothing of CUDA."""
        _, page, steps = self.check(1, FAKE_FAIL="layers", FAKE_LOSS="0.25", FAKE_CASES="")
        networks = ("neuron_inverter", "cosmoflow")
        sanitizer = {name for name in steps if name.startswith("compute-sanitizer")}
        self.assertEqual(len(sanitizer), 3)
        self.assertEqual(self.failed(steps), {
            "unit tests on cuda", "unit tests on cuda, tf32 and bf16", *sanitizer,
            *(f"parity and graph equals eager, {network} {precision}" for network in networks for precision in ("fp32", "bf16")),
            *(f"layers, {network} bf16" for network in networks)})
        self.assertEqual(len(steps), STEPS)
        self.assertEqual(steps["parity and graph equals eager, cosmoflow fp32"][1],
                         "exit code 1: losses of step 2 differ: eager 0.5, graph 0.25")
        self.assertIn("exit code 1: broken on purpose", page)
        self.assertIn("not measured.", page)

    def test_wrong_gradients_fail(self):
        _, page, steps = self.check(1, FAKE_FAIL="gradients")
        self.assertEqual(len(self.failed(steps)), 6)
        self.assertIn("gradients, cosmoflow bf16", self.failed(steps))
        self.assertIn("| cosmoflow | bf16 | not compared |", page)

    def test_a_hang_is_ended_and_what_has_no_time_left_says_so(self):
        _, _, steps = self.check(1, FAKE_HANG="training", TOTAL="40", FAKE_CASES="cuda: 41 of 42 cases run")
        self.assertEqual(steps["unit tests on cuda"], ("FAILED", "exit code 1: cuda: 41 of 42 cases run"))
        self.assertIn("not done after", steps["speed, neuron_inverter bf16"][1])
        self.assertEqual(len(steps), STEPS)
        # A slow machine loses timings, and nothing that says what is right.
        dropped = [name for name, (_, detail) in steps.items() if "are used up" in detail]
        self.assertIn("speed, cosmoflow bf16", dropped)
        for name in dropped:
            self.assertRegex(name, "^(speed|layers|PyTorch's speed)")
        self.assertEqual(steps["two ranks on one card"][0], "ok")
        self.assertEqual(steps["two ranks that share samples on one card"][0], "ok")
        self.assertEqual(steps["compute-sanitizer racecheck"], ("ok", "========= ERROR SUMMARY: 0 errors"))

    def test_the_sanitizers_see_the_fused_kernels_in_bf16(self):
        self.check(0, PART="tests")
        calls = (self.folder / "kept/sanitizer-calls").read_text().splitlines()
        self.assertEqual(len(calls), 3)
        self.assertTrue(all(call.startswith("1 --tool ") for call in calls), calls)  # MPI starts no daemon beside it
        for tool in ("memcheck", "racecheck"):
            self.assertTrue(any(f"--tool {tool}" in call and "fused layers in low precision" in call for call in calls), calls)

    def test_the_halves_make_one_page_and_the_logs_one_file(self):
        """Two calls, each of which leaves one file; unpacked into one folder they give the whole page."""
        both = self.folder / "both"
        both.mkdir()
        for part in ("speed", "tests"):
            shutil.rmtree(self.folder / "kept", ignore_errors=True)
            _, page, steps = self.check(0, PART=part, PACK=str(self.folder / "logs.tar.gz"))
            self.assertLess(len(steps), STEPS)
            with tarfile.open(self.folder / "logs.tar.gz") as logs:
                logs.extractall(both)
        page = subprocess.run([self.folder / "gpu/results.py", both], capture_output=True, text=True, check=True).stdout
        self.assertIn(f"{STEPS + 1} steps, 0 failed", page)  # both saw the environment
        self.assertIn("| bf16 | 1,000 | 0.0 % of 2 |", page)
        self.assertIn("| cosmoflow | bf16 | 0.004 (conv1 weight) |", page)

    def test_logs_are_packed_when_it_is_ended_from_outside(self):
        logs = self.folder / "logs.tar.gz"
        process = subprocess.Popen([self.folder / "gpu/check.sh"], stdout=subprocess.PIPE, text=True, start_new_session=True,
                                   env={**ENVIRONMENT, "PATH": f"{self.folder}/smi:" + ENVIRONMENT["PATH"], "PACK": str(logs),
                                        "RESULTS": str(self.folder / "gpu.md"), "FAKE_HANG": "gradients",
                                        "KEEP": str(self.folder / "kept")})
        for line in process.stdout:
            if "tf32 and bf16" in line:  # the next step hangs
                break
        time.sleep(1)
        os.killpg(process.pid, signal.SIGTERM)
        process.stdout.close()
        self.assertEqual(process.wait(timeout=20), 143)  # without waiting for the step
        with tarfile.open(logs) as file:
            self.assertIn("./steps-all.tsv", file.getnames())


class NoDevice(unittest.TestCase):
    def test_it_says_so_and_has_its_own_exit_code(self):
        """With the real test binary, which counts its cases."""
        mrmf = pathlib.Path(os.environ.get("MRMF", HERE.parents[1] / "build/mrmf"))
        probe = "nvidia-smi -L | grep -q GPU || ls /dev/nvidia[0-9]*"
        if subprocess.run(probe, shell=True, capture_output=True).returncode == 0:
            self.skipTest("here is a GPU")
        done = subprocess.run([HERE / "check.sh", mrmf.parent], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 69, done.stderr)
        self.assertRegex(done.stdout, r"^cuda: no device, 0 of [1-9][0-9]+ cases run\n$")


if __name__ == "__main__":
    unittest.main()
