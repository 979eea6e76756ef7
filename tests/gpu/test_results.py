"""The results page from recorded stand-ins, and the comparisons: figures land in the right cell, ratios are right, and
what is missing or damaged is said."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import results  # noqa: E402

TORCH = {
    "version": "2.11.0", "cudnn": 91900, "rows": 512, "length": 1600, "device": "cuda",
    "variants": {
        "bf16, channels last, graph": {"precision": "bf16", "samples_per_second": 4000.0, "step_seconds": 0.128,
                                       "loader_samples_per_second": 3000.0, "timed_steps": 57,
                                       "timed_seconds": 7.3, "seconds": 21.4},
        "tf32, channels last, graph": {"precision": "tf32", "samples_per_second": 2000.0, "step_seconds": 0.256},
        "autocast, channels last, compile": {"error": "no time | left", "unfinished": True, "seconds": 0.0}},
    "best_of": {"bf16": "bf16, channels last, graph", "tf32": "tf32, channels last, graph"},
    "unfinished": {"bf16": [], "tf32": ["tf32, channels last, compile+graph"]}}
LAYERS = {"step_us": 200.0, "step_roofline_us": 80.0, "layers": [
    {"name": "conv1+pool1", "forward_us": 20.0, "backward_us": 60.0, "roofline_us": 40.0},
    {"name": "dropout", "forward_us": 1.0, "backward_us": 1.0}]}


class Results(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="mrmf-test-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def write(self, name, data):
        (self.folder / name).write_text(data if isinstance(data, str) else json.dumps(data))

    def row(self, page, start):
        """Cells of the only row that starts so."""
        rows = [line for line in page.splitlines() if line.startswith(f"| {start} |")]
        self.assertEqual(len(rows), 1, f"{start}: {rows}")
        return [cell.strip() for cell in rows[0].strip("|").split(" | ")]

    def test_figures_land_in_their_cells(self):
        self.write("steps-all.tsv", "unit tests\tok\t12\tcuda: 42 of 42 cases run\ngraph\tFAILED\t3\ta | b\n")
        self.write("environment.txt", "NVIDIA H200, 580\n")
        self.write("ours-neuron_inverter-bf16-1.json", {"samples_per_second": 9000})
        self.write("ours-neuron_inverter-bf16-2.json", {"samples_per_second": 11000})
        self.write("torch-neuron_inverter.json", TORCH)
        self.write("layers-neuron_inverter-bf16.json", LAYERS)
        page = results.page(self.folder)
        self.assertIn("2 steps, 1 failed, 0 skipped, 0 short of time. Failed: graph.", page)
        self.assertIn("a \\| b", page)
        self.assertIn("NVIDIA H200", page)
        neuron, cosmoflow = page.split("## CosmoFlow")[0], page.split("## CosmoFlow")[1].split("## Layers")[0]
        self.assertEqual(self.row(neuron, "bf16"), ["bf16", "10,000", "20.0 % of 2", "4,000",
                                                    "bf16, channels last, graph", "2.50", "40 %"])
        self.assertEqual(self.row(neuron, "tf32"), ["tf32", "-", "-", "2,000", "tf32, channels last, graph", "-", "-"])
        self.assertEqual(self.row(neuron, "bf16, channels last, graph"),
                         ["bf16, channels last, graph", "4,000", "128.000", "3,000", "57 in 7.30 s", "21", "2.50"])
        self.assertIn("not run: no time \\| left", neuron)
        # Of tf32 there is no ratio, for the fastest variant may be one that had no time.
        self.write("ours-neuron_inverter-tf32-1.json", {"samples_per_second": 9000})
        self.assertEqual(self.row(results.page(self.folder).split("## CosmoFlow")[0], "tf32")[5], "-")
        self.assertIn("No ratio for tf32: no time was left for tf32, channels last, compile+graph.", neuron)
        self.assertIn("PyTorch was not measured", cosmoflow)
        self.assertEqual(self.row(page, "conv1+pool1"), ["conv1+pool1", "20.0", "60.0", "40.0", "50 %"])
        self.assertEqual(self.row(page, "dropout"), ["dropout", "1.0", "1.0", "-", "-"])
        self.assertEqual(self.row(page, "whole step")[-1], "40 %")

    def test_the_line_about_pytorch(self):
        def line(data):
            self.write("torch.json", data)
            done = subprocess.run([sys.executable, HERE / "results.py", "--torch", self.folder / "torch.json"],
                                  capture_output=True, text=True)
            return done.returncode, done.stdout.strip()

        self.assertEqual(line(TORCH), (75, "2 of 3 variants measured in 21 s; no time for tf32, channels last, compile+graph"))
        self.assertEqual(line({**TORCH, "unfinished": {"bf16": []}}), (0, "2 of 3 variants measured in 21 s"))
        self.assertEqual(line("{")[0], 1)

    def test_the_worst_gradients_are_shown(self):
        self.write("gradients-cosmoflow-bf16.json", {
            "gradients": [{"name": "a", "distance": 0.1, "along": 0.9}, {"name": "b", "distance": 0.2, "along": 1.05}],
            "distance_tolerance": 0.3, "along_tolerance": 0.2})
        self.assertIn("| cosmoflow | bf16 | 0.2 (b) | 0.3 | 0.9000 (a) | 1 +- 0.2 |", results.page(self.folder))

    def test_nothing_and_damage_are_said(self):
        self.write("torch-cosmoflow.json", "{")
        self.write("ours-cosmoflow-bf16-1.json", "")
        self.write("layers-cosmoflow-tf32.json", "[]")
        page = results.page(self.folder)
        self.assertIn("0 steps", page)
        self.assertIn("environment left nothing", page)
        self.assertEqual(page.count("PyTorch was not measured"), 2)
        self.assertEqual(page.count("not measured."), 4)  # PyTorch twice, two tables of layers

    def compare(self, *words):
        done = subprocess.run([sys.executable, HERE / "compare.py", *words], cwd=self.folder, capture_output=True,
                              text=True)
        return done.returncode, (done.stdout + done.stderr).strip()

    def parity(self, name, losses, parameters="a"):
        self.write(name, {"losses": {"cpu": losses, "device": losses}, "parameters_hash": parameters})

    def test_a_graph_must_be_equal_to_the_last_bit(self):
        self.parity("eager", [1.0, 0.5])
        cases = (([1.0, 0.5], "a", 0, "2 losses"), ([1.0, 0.5 + 2**-53], "a", 1, "step 2 differ"),
                 ([1.0, 0.5], "b", 1, "parameters after them are not"), ([1.0], "a", 1, "2 eager steps and 1"),
                 ([1.0, float("nan")], "a", 1, "not finite"))
        for losses, parameters, code, text in cases:
            self.parity("graph", losses, parameters)
            result = self.compare("graph", "eager", "graph")
            self.assertEqual(result[0], code, result)
            self.assertIn(text, result[1])
        self.write("graph", {"losses": {"device": [1.0, 0.5]}})
        self.assertIn("lacks 'parameters_hash'", self.compare("graph", "eager", "graph")[1])
        self.assertEqual(self.compare("graph", "eager", "absent")[0], 1)

    def test_runs_agree_but_for_rounding(self):
        for folder in ("one", "two"):
            (self.folder / folder).mkdir()
        self.write("one/result.json", {"ranks": 1, "validation_loss": 0.2})
        for ranks, loss, code in ((2, 0.201, 0), (2, 0.21, 1), (1, 0.2, 1), (2, None, 1)):
            self.write("two/result.json", {"ranks": ranks, "validation_loss": loss})
            self.assertEqual(self.compare("runs", "one", "two")[0], code)


if __name__ == "__main__":
    unittest.main()
