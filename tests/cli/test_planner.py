"""`mrmf bench tables` and `mrmf plan --ranks`: tables of this machine, the choice of a grid, and what does not fit."""
import json
import re

import support

CUBES = """
[data]
files = ["none.h5"]
train = { samples = "x", labels = "y" }
validation = { samples = "vx", labels = "vy" }
[model]
preset = "cosmoflow"
[training]
batch = 2
epochs = 3
[method]
name = "mrmf"
resolutions = [[2, 2, 2], [1, 1, 1]]
"""


class Planner(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"), train=48, validation=17)
        self.config()

    def tables(self, *words, ranks=0, **options):
        threads = "1" if ranks else "2"
        return self.mrmf("bench", "tables", *words, "--seconds", "0.005", "--threads", threads, "-o", "tables.json", ranks=ranks, **options)

    def read(self, name="tables.json"):
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)

    def test_tables_of_one_and_two_ranks_serve_a_plan(self):
        self.tables("config.toml")
        self.tables("config.toml", ranks=2)
        tables = self.read()
        self.assertEqual([team["ranks"] for team in tables["teams"]], [1, 2])
        one, two = tables["teams"]
        self.assertIsNone(one["message_by_byte"])
        self.assertGreater(two["message_by_byte"]["latency"], 0)
        self.assertGreater(two["small_sum"], 0)
        self.assertGreater(tables["read_bytes_per_second"], 0)
        keys = {o["operation"] for o in two["operations"]}
        self.assertTrue(any(key.startswith("conv 3->6 4") for key in keys), keys)
        self.assertTrue(any(key == "exchange" for key in keys), keys)  # of the blocks of two ranks
        for operation in one["operations"]:
            self.assertGreater(operation["forward"], 0)

        plan = json.loads(self.mrmf("plan", "config.toml", "--ranks", "2", "--tables", "tables.json", "--json"))["ranks"]
        grids = plan["phases"][0]["grids"]
        self.assertEqual(sorted(g["grid"] for g in grids), [[1], [2]])
        self.assertEqual([g["batch"] for g in sorted(grids, key=lambda g: g["grid"])], [16, 32])
        for grid in grids:
            self.assertGreater(grid["measured_share"] + grid["between_share"], 0.9, grid)
            parts = sum(grid[f"{part}_seconds"] for part in ("compute", "message", "sum", "optimizer", "load", "validation"))
            self.assertAlmostEqual(parts, grid["epoch_seconds"], places=9)
        self.assertLessEqual(grids[0]["epoch_seconds"], grids[1]["epoch_seconds"])

        text = self.mrmf("plan", "config.toml", "--ranks", "2", "--tables", "tables.json")
        for words in ("s an epoch", "second best:", "memory of a rank", "run.grid = "):
            self.assertIn(words, text)
        toml = self.mrmf("plan", "config.toml", "--ranks", "2", "--tables", "tables.json", "--toml")
        self.write("chosen.toml", toml)
        self.mrmf("train", "chosen.toml", "--set", "training.epochs=1", ranks=2)

    def test_newer_tables_are_added_and_others_refused(self):
        self.tables("config.toml")
        before = len(self.read()["teams"][0]["operations"])
        self.tables("config.toml", "--set", "training.batch=8")
        self.assertGreater(len(self.read()["teams"][0]["operations"]), before)
        self.tables("config.toml", "--fresh")
        self.assertEqual(len(self.read()["teams"][0]["operations"]), before)
        other = self.read()
        other["processor"] = "another"
        self.write("tables.json", json.dumps(other))
        self.assertIn("--fresh", self.tables("config.toml", code=2))

    def test_what_is_missing_is_told(self):
        self.assertIn("mrmf bench tables", self.mrmf("plan", "config.toml", "--ranks", "2", "--tables", "none.json", code=3))
        self.write("other.json", "{}")
        self.assertIn("other.json: no tables", self.mrmf("plan", "config.toml", "--ranks", "2", "--tables", "other.json", code=3))
        self.assertIn("v100, a100", self.mrmf("plan", "config.toml", "--ranks", "2", "--machine", "abacus", code=2))
        self.write("cubes.toml", CUBES)
        self.assertIn("--samples", self.mrmf("plan", "cubes.toml", "--ranks", "8", "--machine", "h200", code=2))

    def test_a_gpu_is_modelled_with_its_assumptions_told(self):
        self.write("cubes.toml", CUBES)
        words = ("plan", "cubes.toml", "--samples", "1000", "--sample", "128x128x128x4", "--ranks", "8", "--machine", "h200")
        text = self.mrmf(*words)
        self.assertIn("modelled, not measured", text)
        self.assertGreater(text.count("assumed: "), 3)
        self.assertIn("computed whole by every rank", self.mrmf(*words, "--batch", "2"))  # fewer samples than ranks
        refused = self.mrmf(*words, "--memory", "0.001", code=2)
        self.assertIn("no grid of 8 ranks fits", refused)
        self.assertIn("may use 0.001 GB", refused)

    def test_inspect_tells_the_memory_of_a_block(self):
        self.write("cubes.toml", CUBES)
        peaks = []
        for grid in ("[1, 1, 1]", "[2, 2, 1]"):
            output = self.mrmf("inspect", "cubes.toml", "--sample", "128x128x128x4", "--json", "--set", f"run.grid={grid}")
            peaks.append(json.loads(output)["memory_of_a_rank"]["batch_bytes"] + json.loads(output)["memory_of_a_rank"]["model_bytes"])
        self.assertLess(peaks[1], peaks[0])
        text = self.mrmf("inspect", "cubes.toml", "--sample", "128x128x128x4", "--set", "run.grid=[2,2,1]")
        self.assertTrue(re.search(r"grid \[2,2,1\][\s\S]*memory of a rank with its blocks of samples at its peak", text), text)


if __name__ == "__main__":
    support.main()
