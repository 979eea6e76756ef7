"""torch_bench.py: what it measures, and what not, with stand-ins for the measurement; and, where PyTorch is, whether it runs,
on the CPU at tiny sizes: .venv-peers (made by `make bench`) or the interpreter that TORCH_PYTHON names."""
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import torch_bench  # noqa: E402

PYTHON = os.environ.get("TORCH_PYTHON", str(HERE.parents[1] / ".venv-peers/bin/python"))
EAGER = "tf32, channels first, eager"
FAKE_TORCH = types.SimpleNamespace(__version__="2.0", backends=types.SimpleNamespace(
    cudnn=types.SimpleNamespace(version=lambda: 91900)))


def found():
    return os.path.exists(PYTHON) and subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode == 0


class Choice(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="mrmf-test-")
        self.addCleanup(scratch.cleanup)
        self.file = pathlib.Path(scratch.name) / "peers.json"
        self.peers = pathlib.Path(scratch.name) / "peers"
        self.peers.mkdir()
        for name, value in (("torch", FAKE_TORCH), ("import_torch", lambda: True), ("PEERS", self.peers)):
            patch = mock.patch.object(torch_bench, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def bench(self, *words, seconds=lambda network, name: 0):
        """(exit code, last line, [(network, name) measured])"""
        def measure(options, network, name):
            time.sleep(seconds(network, name))
            return {"precision": torch_bench.VARIANTS[name][0], "samples_per_second": 5.0, "step_seconds": 0.2,
                    "timed_steps": 9, "timed_seconds": 1.8}

        said = io.StringIO()
        with mock.patch.object(torch_bench, "measure", measure), contextlib.redirect_stdout(said):
            code = torch_bench.main(["--card", "Fake H999", "--json", str(self.file), *words])
        lines = said.getvalue().splitlines()
        return code, lines[-1], [line.split(maxsplit=1)[0] for line in lines if line.startswith("  ")]

    def test_the_best_of_both_networks_are_measured_once(self):
        code, line, measured = self.bench("--set", "best")
        self.assertEqual((code, line), (0, "6 of 6 variants measured on Fake H999"))
        self.assertEqual(measured, ["cosmoflow", "neuron_inverter"] * 3)  # the strongest of both first
        self.assertIn("nothing is measured", self.bench("--set", "best")[1])
        # The file is one of those in tests/gpu/peers.
        self.file.rename(self.peers / "Fake-H999.json")
        self.assertEqual(self.bench("--set", "best")[2], [])
        self.assertEqual(len(json.loads(self.file.read_text())["networks"]["cosmoflow"]["variants"]), 3)
        # Others are added to it; another size is another measurement.
        self.assertEqual(len(self.bench("--set", "compiled")[2]), 6)
        self.assertEqual(len(json.loads(self.file.read_text())["networks"]["cosmoflow"]["variants"]), 6)
        self.assertEqual(len(self.bench("--set", "best", "--rows", "2")[2]), 6)

    def test_another_cards_figures_are_none(self):
        self.bench("--set", "best")
        self.assertEqual(len(self.bench("--set", "best", "--card", "Fake H998")[2]), 6)

    def test_a_variant_that_hangs_loses_no_other_and_is_measured_in_the_next_call(self):
        first = torch_bench.SETS["best"][0]
        code, line, measured = self.bench("--set", "best", "--limit", "3", "--ending", "0",
                                          seconds=lambda network, name: 60 if (network, name) == ("cosmoflow", first) else 0)
        self.assertEqual(code, 75)
        self.assertEqual(line, f"5 of 6 variants measured on Fake H999; no time for cosmoflow {first}")
        self.assertEqual(self.bench("--set", "best")[2], ["cosmoflow"])

    def test_without_pytorch(self):
        with mock.patch.object(torch_bench, "import_torch", lambda: False):
            self.assertEqual(self.bench("--set", "best")[0], 77)


@unittest.skipUnless(found(), f"no PyTorch in {PYTHON}; make bench installs it, TORCH_PYTHON names another")
class TorchBench(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="mrmf-test-")
        self.addCleanup(scratch.cleanup)
        self.file = pathlib.Path(scratch.name) / "torch.json"

    def bench(self, *words, code=0):
        """(what the file holds, what was said)"""
        done = subprocess.run([PYTHON, HERE / "torch_bench.py", "--json", self.file, "--networks", "neuron_inverter", *words],
                              capture_output=True, text=True, timeout=110)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return json.loads(self.file.read_text()) if self.file.exists() else {}, done.stdout + done.stderr

    def test_variants_run_and_one_that_cannot_is_no_loss(self):
        names = ["bf16, channels last, graph", EAGER, "bf16, channels last, eager"]
        small = ["--device", "cpu", "--rows", "4", "--length", "256", "--steps", "2", "--warmup", "1", "--limit", "100"]
        result, _ = self.bench(*small, "--variants", ";".join(names))
        variants = result["networks"]["neuron_inverter"]["variants"]
        self.assertEqual(list(variants), names)
        self.assertEqual(variants[names[0]]["error"], "CUDA graphs need a GPU")
        for name in names[1:]:
            self.assertGreater(variants[name]["samples_per_second"], 0, result)
            self.assertEqual(variants[name]["timed_steps"], 2)
            self.assertGreater(variants[name]["seconds"], variants[name]["timed_seconds"])
        # What was measured is not measured again.
        again, said = self.bench(*small, "--variants", ";".join(names))
        self.assertIn("nothing is measured", said)
        self.assertEqual(again, result)

    def test_the_time_limit_ends_a_variant_and_refuses_the_next(self):
        result, said = self.bench("--device", "cpu", "--limit", "2.5", "--variants", EAGER + ";tf32, channels last, eager",
                                  code=75)
        errors = [variant["error"] for variant in result["networks"]["neuron_inverter"]["variants"].values()]
        self.assertEqual(len(errors), 2)
        self.assertIn("no time for neuron_inverter " + EAGER, said)

    def test_an_unknown_variant_is_refused(self):
        self.assertIn("there is no variant 'fastest'", self.bench("--variants", "fastest", code=1)[1])


if __name__ == "__main__":
    unittest.main()
