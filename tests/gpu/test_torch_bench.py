"""Does torch_bench.py run? On the CPU, at tiny sizes. Exit code 77, skipped, where no PyTorch is: .venv-peers (made by
`make bench`) or the interpreter that TORCH_PYTHON names."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = os.environ.get("TORCH_PYTHON", str(HERE.parents[1] / ".venv-peers/bin/python"))
EAGER = "tf32, channels first, eager"


class TorchBench(unittest.TestCase):
    def bench(self, *words, code=0):
        with tempfile.TemporaryDirectory(prefix="mrmf-test-") as folder:
            file = pathlib.Path(folder) / "torch.json"
            done = subprocess.run([PYTHON, HERE / "torch_bench.py", "--json", file, *words], capture_output=True,
                                  text=True, timeout=110)
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            return json.loads(file.read_text()) if file.exists() else done.stderr

    def test_variants_run_and_one_that_cannot_is_no_loss(self):
        names = ["bf16, channels last, graph", EAGER, "bf16, channels last, eager"]
        result = self.bench("--device", "cpu", "--rows", "4", "--length", "256", "--steps", "2", "--warmup", "1",
                            "--limit", "100", "--variants", ";".join(names))
        self.assertEqual(list(result["variants"]), names)
        self.assertEqual(result["variants"][names[0]]["error"], "CUDA graphs need a GPU")
        for name in names[1:]:
            self.assertGreater(result["variants"][name]["samples_per_second"], 0, result)
            self.assertEqual(result["variants"][name]["timed_steps"], 2)
            self.assertGreater(result["variants"][name]["seconds"], result["variants"][name]["timed_seconds"])
        self.assertEqual(result["best_of"], {"tf32": names[1], "bf16": names[2]})
        rates = [result["variants"][name]["samples_per_second"] for name in names[1:]]
        self.assertEqual(result["samples_per_second"], max(rates))

    def test_the_time_limit_ends_a_variant_and_refuses_the_next(self):
        result = self.bench("--device", "cpu", "--limit", "0.5", "--variants", EAGER + ";tf32, channels last, eager",
                            code=1)
        errors = [variant["error"] for variant in result["variants"].values()]
        self.assertIn("not done after", errors[0])
        self.assertIsNone(result["best"])
        self.assertEqual({len(names) for names in result["unfinished"].values()}, {4, 2})  # none of the strongest was run

    def test_an_unknown_variant_is_refused(self):
        self.assertIn("there is no variant 'fastest'", self.bench("--variants", "fastest", code=1))


if __name__ == "__main__":
    probe = [PYTHON, "-c", "import torch"]
    if not os.path.exists(PYTHON) or subprocess.run(probe, capture_output=True).returncode:
        print(f"torch_bench test: skipped: no PyTorch in {PYTHON}; make bench installs it, TORCH_PYTHON names another")
        sys.exit(77)
    unittest.main()
