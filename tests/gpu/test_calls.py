"""Both calls of the check with the real programs, the real filters of test cases and the emulated device, small networks and
scaled limits: each step leaves its line in the stated order, and the calls leave the page, the table of kernels and the
packed results. Nothing here says anything about a GPU. CMake names the emulated module in MRMF_CUDA_MODULE."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import results  # noqa: E402
import steps as table  # noqa: E402

MRMF = pathlib.Path(os.environ.get("MRMF", HERE.parents[1] / "build/mrmf"))


class Calls(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="mrmf-test-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def check(self, *words, **variables):
        return subprocess.run(
            [sys.executable, HERE / "check.py", *words, "--build", MRMF.parent, "--out", self.folder / "out", "--page",
             self.folder / "out/gpu.md", "--work", self.folder / "work", "--trial"],
            capture_output=True, text=True, timeout=1100, env={**os.environ, "OMP_WAIT_POLICY": "passive", **variables})

    def refused(self, text, **variables):
        """One line, in the first step, which has 15 seconds on a GPU."""
        done = self.check("first", **variables)
        self.assertEqual(done.returncode, 69, done.stdout + done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertRegex(done.stderr, f"^gpu-check: the GPU cannot be used: .*{text}")
        rows = [json.loads(line) for line in (self.folder / "work/steps.jsonl").read_text().splitlines()]
        self.assertEqual([row["name"] for row in rows], ["facts"])
        self.assertIn("**What did not run:** first steps (first call); cases (first call);",
                      (self.folder / "out/gpu.md").read_text())

    def test_a_gpu_that_cannot_be_used_is_one_line(self):
        self.refused("the NVIDIA driver supports CUDA 12.0 and this build needs 13.0", MRMF_EMULATED_DRIVER="12000")
        self.refused("no NVIDIA GPU is visible to this process", MRMF_EMULATED_GPUS="0")
        self.refused("GPU 0 is in use by another process", MRMF_EMULATED_BUSY="1")
        self.refused("found cuBLASLt 12.5, and this build needs at least 13.0", MRMF_EMULATED_CUBLASLT="120500")
        self.refused("does not fit this mrmf .interface another", MRMF_CUDA_MODULE=os.environ["MRMF_OTHER_CUDA_MODULE"])
        self.refused("there is no .*nowhere.so", MRMF_CUDA_MODULE="/nowhere.so")
        broken = self.folder / "without_cudnn.so"  # whatever cannot be opened
        broken.write_text("no library")
        self.refused("put NVIDIA's libraries", MRMF_CUDA_MODULE=str(broken))

    def test_both_calls(self):
        done = self.check("both")
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, said)
        rows = [json.loads(line) for line in (self.folder / "work/steps.jsonl").read_text().splitlines()]
        self.assertEqual([(row["call"], row["name"]) for row in rows],
                         [(call, step.name) for call in table.CALLS for step in table.CALLS[call]])
        by_name = {(row["call"], row["name"]): row for row in rows}
        elsewhere = ("PyTorch", "PyTorch, compiled", "one step under ncu", "sanitizers")  # what a GPU machine has
        for (call, name), row in by_name.items():
            self.assertIn(row["status"], ("ok", "skipped") if name in elsewhere else ("ok",), row)
        self.cases(by_name)
        page = (self.folder / "out/gpu.md").read_text()
        self.assertIn("emulated device", page)
        self.assertRegex(page, r"\| neuron_inverter \| bf16 \| 0\.\d+ \(.*\) \| 0.55 \|")
        for network in table.NETWORKS:
            nodes = results.kernel_rows(self.folder / f"work/kernels-{network}-bf16.tsv")
            self.assertGreater(len(nodes), 80, network)
            self.assertTrue(any("cuDNN engine" in node["name"] and "backward weights" in node["name"] for node in nodes))
            self.assertEqual(len({node["count"] for node in nodes}), 1)  # whole steps
            self.assertIn(f"### {network}, bf16\n\n{len(nodes)} nodes a step", page)
        self.assertFalse([path for path in (self.folder / "out").iterdir() if path.stat().st_size > 4_000_000])
        with tarfile.open(self.folder / "out/gpu-check-second.tar.gz") as archive:
            names = archive.getnames()
        for name in ("page.md", "steps.jsonl", "device.json", "cache/mrmf/plans.json", "first-cosmoflow-bf16.json", "ours-neuron_inverter-bf16.json",
                     "gradients-neuron_inverter-fp32.json", "kernels-cosmoflow-bf16.tsv", "two-ranks/result.json"):
            self.assertIn(name, names)
        self.assertFalse([name for name in names if name.endswith((".h5", ".bin"))])

    def cases(self, by_name):
        """Each case of the backend ran once, in one of the calls, and nearly all of them on the device."""
        ran = [re.match(r"(\d+) of (\d+) cases that compute on the device passed(?:, (\d+) others use none)?",
                        by_name[which]["said"]) for which in (("first", "cases"), ("second", "long cases"))]
        listed = subprocess.run([MRMF.parent / "tests/unit_tests", "--count", f"--test-case={table.CASES}"],
                                capture_output=True, text=True, env={**os.environ, "MRMF_TEST_CUDA": "1"}).stdout
        self.assertEqual(sum(int(match[2]) + int(match[3] or 0) for match in ran), int(listed.split(":")[-1]))
        self.assertGreater(int(ran[0][1]), 45)
        self.assertLessEqual(int(ran[0][3] or 0), 6, "cases of a backend that make none on CUDA: " + str(by_name))
        self.assertEqual(int(ran[1][1]), 4)


if __name__ == "__main__":
    if "MRMF_CUDA_MODULE" not in os.environ:
        print("MRMF_CUDA_MODULE does not name the emulated CUDA module")
        sys.exit(77)
    unittest.main()
