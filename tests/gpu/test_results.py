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

STRONGEST = {"bf16": ["bf16, channels last, graph"], "tf32": ["tf32, channels last, graph", "tf32, channels last, compile+graph"]}
PEERS = {"card": "NVIDIA H200", "version": "2.11.0", "cudnn": 91900, "networks": {"neuron_inverter": {
    "rows": 512, "length": 1600, "strongest": STRONGEST, "variants": {
        "bf16, channels last, graph": {"precision": "bf16", "samples_per_second": 4000.0, "step_seconds": 0.128,
                                       "loader_samples_per_second": 3000.0, "timed_steps": 57, "timed_seconds": 7.3},
        "tf32, channels last, graph": {"precision": "tf32", "samples_per_second": 2000.0, "step_seconds": 0.256},
        "autocast, channels last, compile": {"error": "no time | left", "unfinished": True}}}}}
KERNELS = """graph\tcount\tus\tgap_us\tregisters\tblock\tgrid\tshared\tname
1\t3\t9.0\t0\t0\t0\t0\t0\ttrial
2\t10\t20.5\t1.5\t64\t256\t528\t1024\tvoid mrmf::cuda::(anonymous namespace)::Adam<float>
2\t10\t30.0\t0.5\t128\t128\t99\t49152\tcudnn_conv
"""


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

    def step(self, name, status="ok", said="done", call="first"):
        with open(self.folder / "steps.jsonl", "a") as file:
            file.write(json.dumps({"call": call, "name": name, "status": status, "seconds": 3.1, "limit": 9, "said": said}) + "\n")

    def test_figures_land_in_their_cells(self):
        self.step("cases", said="42 of 42")
        self.step("graph", "FAILED", "a | b")
        self.write("environment.txt", "NVIDIA H200, 580\n")
        speed = {"step_seconds": 0.0512, "loader_samples_per_second": 9000}
        self.write("ours-neuron_inverter-bf16.json", {"samples_per_second": 10000, **speed})
        self.write("first-neuron_inverter-bf16.json", {"samples_per_second": 8000, **speed})
        self.write("eager-neuron_inverter-bf16.json", {"samples_per_second": 7000, **speed})
        self.write("ours-neuron_inverter-tf32.json", {"samples_per_second": 9000, **speed})
        self.write("peers.json", PEERS)
        page = results.page(self.folder)
        self.assertIn("2 steps, 1 FAILED, 0 warned, 0 skipped, 0 short. Failed: graph.", page)
        self.assertEqual(self.row(page, "first | graph"), ["first", "graph", "FAILED", "3.1", "9", "a \\| b"])
        self.assertIn("NVIDIA H200", page)
        neuron, cosmoflow = page.split("## CosmoFlow")[0], page.split("## CosmoFlow")[1].split("## Kernels")[0]
        self.assertEqual(self.row(neuron, "bf16"), ["bf16", "10,000", "51.200", "9,000", "8,000", "7,000", "4,000",
                                                    "bf16, channels last, graph", "2.50"])
        # Of tf32 there is no ratio, for the fastest variant may be one that has not been measured.
        self.assertEqual(self.row(neuron, "tf32")[-3:], ["2,000", "tf32, channels last, graph", "-"])
        self.assertIn("No ratio for tf32: ", neuron)
        self.assertEqual(self.row(neuron, "bf16, channels last, graph"),
                         ["bf16, channels last, graph", "4,000", "128.000", "3,000", "57 in 7.30 s"])
        self.assertIn("not run: no time \\| left", neuron)
        self.assertIn("PyTorch was not measured", cosmoflow)

    def test_what_did_not_run_is_said(self):
        self.step("cases")
        self.step("sanitizers", "skipped", "it is not here")
        page = results.page(self.folder, [("first", "cases"), ("first", "speed")])
        self.assertIn("**What did not run:** speed (first call); sanitizers: it is not here.", page)
        self.assertIn("nothing; all of it ran", results.page(self.folder / "empty"))

    def test_the_kernels_of_the_longest_graph_are_shown_longest_first(self):
        self.write("kernels-cosmoflow-bf16.tsv", KERNELS)
        page = results.page(self.folder)
        self.assertIn("2 nodes a step, 0.051 ms in them and 0.002 ms between them", page)
        self.assertLess(page.index("| cudnn_conv | 2 | 30.0 | 0.5 | 128 | 128 | 99 | 49152 |"),
                        page.index("| Adam<float> | 1 | 20.5 | 1.5 | 64 | 256 | 528 | 1024 |"))
        self.assertNotIn("trial", page)
        done = subprocess.run([sys.executable, HERE / "results.py", "--kernels", self.folder / "none.tsv"], capture_output=True)
        self.assertEqual(done.returncode, 1)

    def test_the_worst_gradients_are_shown(self):
        self.write("gradients-cosmoflow-bf16.json", {
            "gradients": [{"name": "a", "distance": 0.1, "along": 0.9}, {"name": "b", "distance": 0.2, "along": 1.05}],
            "distance_tolerance": 0.3, "along_tolerance": 0.2})
        self.assertIn("| cosmoflow | bf16 | 0.2 (b) | 0.3 | 0.9000 (a) | 1 +- 0.2 |", results.page(self.folder))

    def test_nothing_and_damage_are_said(self):
        self.write("peers.json", "{")
        self.write("ours-cosmoflow-bf16.json", "")
        self.write("first-cosmoflow-tf32.json", "[]")
        self.write("steps.jsonl", "{\n")
        self.write("kernels-cosmoflow-bf16.tsv", "nothing\n")
        self.write("ncu-cosmoflow-bf16.csv", '"ID","Kernel Name"\n"0"\n')
        page = results.page(self.folder)
        self.assertIn("0 steps", page)
        self.assertIn('the step "facts" left nothing', page)
        self.assertEqual(page.count("PyTorch was not measured"), 2)
        self.assertIn("cosmoflow, bf16: no table.", page)
        self.assertIn("## Time and bytes by ncu\n\nnot measured.", page)

    def compare(self, *words):
        done = subprocess.run([sys.executable, HERE / "compare.py", *words], cwd=self.folder, capture_output=True,
                              text=True)
        return done.returncode, (done.stdout + done.stderr).strip()

    def parity(self, name, losses, parameters="a"):
        self.write(name, {"losses": losses, "parameters_hash": parameters, "samples_per_second": 9, "step_seconds": 0.1})

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
        self.write("graph", {"losses": [1.0, 0.5]})
        self.assertIn("lacks 'parameters_hash'", self.compare("graph", "eager", "graph")[1])
        self.assertEqual(self.compare("graph", "eager", "absent")[0], 1)

    def test_the_last_losses_are_near(self):
        self.parity("fixed", [1.0, 0.5])
        for losses, code in (([1.0, 0.52], 0), ([1.0, 0.6], 1), ([1.0, None], 1), ([1.0], 1)):
            self.parity("timed", losses)
            self.assertEqual(self.compare("loss", "fixed", "timed")[0], code)

    def test_runs_agree_but_for_rounding(self):
        for folder in ("one", "two"):
            (self.folder / folder).mkdir()
        self.write("one/result.json", {"ranks": 1, "validation_loss": 0.2})
        for ranks, loss, code in ((2, 0.201, 0), (2, 0.21, 1), (1, 0.2, 1), (2, None, 1)):
            self.write("two/result.json", {"ranks": ranks, "validation_loss": loss})
            self.assertEqual(self.compare("runs", "one", "two")[0], code)


if __name__ == "__main__":
    unittest.main()
