"""`mrmf bench tables` and `mrmf plan --ranks`: tables of this machine, the choice of a grid, and what does not fit."""
import json
import os
import re
from unittest import mock

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

    def measured(self):
        return json.loads(self.read("tables.json"))

    def test_tables_of_one_and_two_ranks_serve_a_plan(self):
        said = self.tables("config.toml")
        self.assertEqual(re.findall(r"(?m)^round (\d) of 3$", said), ["1", "2", "3"])
        self.assertRegex(said, r"medians are kept; a step differs between rounds by \d+ % \(median over networks\), at most by \d+ % \(\S")
        said = self.tables("config.toml", "--rounds", "1", ranks=2)
        self.assertIn("round 1 of 1", said)
        self.assertNotIn("medians are kept", said)
        tables = self.measured()
        self.assertEqual([team["ranks"] for team in tables["teams"]], [1, 2])
        one, two = tables["teams"]
        self.assertIsNone(one["message_by_byte"])
        self.assertGreater(two["message_by_byte"]["latency"], 0)
        self.assertGreater(two["small_sum"], 0)
        self.assertGreater(tables["read_bytes_per_second"], 0)
        keys = {o["operation"] for o in two["operations"]}
        self.assertTrue(any(key.startswith("conv 3->6 4") for key in keys), keys)
        self.assertTrue(any(key == "exchange" for key in keys), keys)  # of the blocks of two ranks
        self.assertEqual(tables["cores"], len(os.sched_getaffinity(0)))  # a launcher binds each of two ranks to some
        self.assertEqual(one["waiting"], {"step": 0, "unit": 0})
        self.assertGreater(two["waiting"]["step"], 0)
        self.assertGreater(two["waiting"]["unit"], two["waiting"]["step"])
        for operation in one["operations"]:
            self.assertGreater(operation["forward"], 0)

        plan = json.loads(self.mrmf("plan", "config.toml", "--ranks", "2", "--tables", "tables.json", "--json"))["ranks"]
        grids = plan["phases"][0]["grids"]
        self.assertEqual(sorted(g["grid"] for g in grids), [[1], [2]])
        self.assertEqual([g["batch"] for g in sorted(grids, key=lambda g: g["grid"])], [16, 32])
        for grid in grids:
            self.assertGreater(grid["measured_share"] + grid["between_share"], 0.9, grid)
            parts = sum(grid[f"{part}_seconds"] for part in ("compute", "waiting", "message", "sum", "optimizer", "load",
                                                             "validation"))
            self.assertAlmostEqual(parts, grid["epoch_seconds"], places=9)
        self.assertLessEqual(grids[0]["epoch_seconds"], grids[1]["epoch_seconds"])

        text = self.mrmf("plan", "config.toml", "--ranks", "2", "--tables", "tables.json")
        for words in ("s an epoch", "second best:", "memory of a rank", "run.grid = "):
            self.assertIn(words, text)
        toml = self.mrmf("plan", "config.toml", "--ranks", "2", "--tables", "tables.json", "--toml")
        self.write("chosen.toml", toml)
        self.mrmf("train", "chosen.toml", "--set", "training.epochs=1", ranks=2)

    def with_layer_norm(self):
        """A batch norm behind the flatten wants two rows at least; a layer norm does not."""
        self.write("config.toml", self.read("config.toml").replace('"batch_norm"', '"layer_norm"'))

    def test_what_is_planned_can_be_trained(self):
        self.with_layer_norm()
        self.tables_of_two_ranks()
        for settings, batch, refused in ((("data.shards=1",), 32, "data.shards = 1 is not a multiple of the 2 ranks"),
                                         (("run.deterministic=true", "data.shards=2"), 32, "go without run.grid"),
                                         (("training.accumulate=4",), 4, "training.accumulate = 4")):
            sets = [word for setting in settings for word in ("--set", setting)]
            words = ("plan", "config.toml", "--ranks", "2", "--tables", "tables.json", "--batch", str(batch), *sets)
            self.assertRegex(self.mrmf(*words), f"does not fit: .*{re.escape(refused)}")
            self.write("chosen.toml", self.mrmf(*words, "--toml"))
            self.mrmf("train", "chosen.toml", "--overwrite", "--set", "training.epochs=1", ranks=2)
        words = ("plan", "config.toml", "--ranks", "2", "--tables", "tables.json")
        self.write("chosen.toml", self.mrmf(*words, "--set", "run.ranks=4", "--toml"))
        self.mrmf("train", "chosen.toml", "--overwrite", "--set", "training.epochs=1", ranks=2)
        self.fused('top = "interpolated"', 'switch = "slope"')
        self.assertIn("needs two steps or more in an epoch", self.mrmf(*words, "--batch", "48", code=2))
        self.write("chosen.toml", self.mrmf(*words, "--batch", "24", "--toml"))
        self.mrmf("train", "chosen.toml", "--overwrite", "--set", "method.stop.coarse.epochs=1", ranks=2)

    def fused(self, *lines):
        """A configuration of two resolutions, with further lines of [method]."""
        self.config(replace=[('name = "baseline"', "\n".join(['name = "mrmf"', "resolutions = [[2], [1]]", *lines]))])

    def dear_messages(self):
        """Tables in which a message costs a second, and a sum over ranks nothing."""
        tables = self.measured()
        for team in tables["teams"]:
            if team["message_by_byte"]:
                team["message_by_byte"]["latency"] = 1.0
                team["sum_by_byte"] = team["update_sum_by_byte"] = {"latency": 0.0, "per_unit": 0.0}
                team["small_sum"] = 0.0
        self.write("tables.json", json.dumps(tables))

    def test_a_grid_for_each_resolution(self):
        self.fused("coarse = { batch = 16 }", "dense = { batch = 1 }")
        self.with_layer_norm()
        words = ("plan", "config.toml", "--set", "training.batch=1", "--ranks", "2", "--tables", "tables.json", "--batch", "1")
        self.tables_of_two_ranks()
        self.dear_messages()
        # One sample a step can only be shared at full resolution, and sharing is dear at half of it.
        text = self.mrmf(*words)
        self.assertIn("one grid for the whole run: 2 x 1 group, at most ", text)
        self.assertRegex(text, r"a grid for each resolution: \[\[1\],\[2\]\], at most .* s of reading where the grid changes, .* % less")
        for key in ("run.grid = [[1], [2]]", "training.batch = 1", "method.coarse.batch = 8"):
            self.assertIn(f"  {key}\n", text)
        found = json.loads(self.mrmf(*words, "--json"))["ranks"]
        self.assertEqual(found["by_resolution"]["grids"], [[1], [2]])
        self.assertLess(found["by_resolution"]["seconds"], 0.99 * found["whole_run"][0]["seconds"])
        self.assertGreater(found["by_resolution"]["reading_seconds"], 0)
        self.write("chosen.toml", self.mrmf(*words, "--toml"))
        self.mrmf("train", "chosen.toml", "--set", "training.epochs=1", ranks=2)
        lines = [json.loads(line) for line in self.read("run/epochs.jsonl").splitlines()]
        self.assertEqual([(line["role"], line.get("grid"), line["batch"]) for line in lines],
                         [("coarse", None, 8), ("dense", [2], 1), ("finetune", [2], 1)])

    def test_two_teams(self):
        self.fused('teams = "concurrent"', "stop = { coarse = { epochs = 6 } }")
        self.tables_of_two_ranks()
        words = ("plan", "config.toml", "--set", "training.batch=8", "--tables", "tables.json", "--ranks")
        splits = json.loads(self.mrmf(*words, "4", "--json"))["ranks"]["splits"]
        self.assertEqual(sorted(split["split"] for split in splits), [[1, 3], [2, 2], [3, 1]])
        seconds = [split["seconds"] for split in splits]
        self.assertEqual(seconds, sorted(seconds))
        for split in splits:
            (stage,) = split["stages"]
            self.assertAlmostEqual(split["seconds"], max(stage["dense_seconds"], stage["coarse_seconds"]), places=12)
        text = self.mrmf(*words, "4")
        self.assertIn(f"  method.team_shares = {splits[0]['split']}\n", text)
        self.assertIn("stage 1 dense", text)
        self.assertNotIn("one grid for the whole run", text)
        self.write("chosen.toml", self.mrmf(*words, "2", "--toml"))
        self.assertIn("team_shares = [1, 1]", " ".join(self.read("chosen.toml").split()))
        output = self.mrmf("train", "chosen.toml", "--set", "training.epochs=1", "--set", "method.stop.coarse.epochs=1", ranks=2)
        self.assertIn("a coarse team of 1 rank and a dense team of 1 train at once", output)
        self.assertIn("a rank for each of two teams", self.mrmf(*words, "1", code=2))

    def test_a_table_of_the_layers(self):
        self.tables_of_two_ranks()
        words = ("plan", "config.toml", "--ranks", "2", "--tables", "tables.json", "--layers")
        self.dear_messages()
        phase = json.loads(self.mrmf(*words, "--json"))["ranks"]["phases"][0]
        self.assertEqual({layer["grid"] for layer in phase["layers"]}, {"-"})
        self.assertEqual(sum(layer["messages"] for layer in phase["layers"]), 0)
        phase = json.loads(self.mrmf(*words, "--json", "--batch", "3"))["ranks"]["phases"][0]
        layers, grid = phase["layers"], phase["grids"][0]
        self.assertEqual(grid["grid"], [2])
        self.assertEqual(sum(layer["sent_bytes"] for layer in layers), grid["sent_bytes_per_step"])
        self.assertAlmostEqual(sum(layer["message_seconds"] for layer in layers) * grid["steps"], grid["message_seconds"], places=9)
        kinds = {layer["layer"].split(" ")[0]: layer["grid"] for layer in layers}
        self.assertEqual((kinds["conv1"], kinds["flatten"], kinds["dense2"]), ("2", "gathered", "whole"))
        text = self.mrmf(*words, "--batch", "3")
        self.assertIn("block of output", text)
        self.assertRegex(text, r"flatten +gathered .* 2, [0-9.e-]+ MB\n")
        self.assertNotIn("block of output", self.mrmf(*words[:-1]))

    def test_newer_tables_are_added_and_others_refused(self):
        self.tables("config.toml")
        before = len(self.measured()["teams"][0]["operations"])
        self.tables("config.toml", "--set", "training.batch=8")
        self.assertGreater(len(self.measured()["teams"][0]["operations"]), before)
        self.tables("config.toml", "--fresh")
        self.assertEqual(len(self.measured()["teams"][0]["operations"]), before)
        other = self.measured()
        other["processor"] = "another"
        self.write("tables.json", json.dumps(other))
        self.assertIn("--fresh", self.tables("config.toml", code=2))

    def test_tables_of_one_kind_of_kernels_are_not_the_others(self):
        words = ("plan", "config.toml", "--ranks", "1", "--tables", "tables.json", "--set")
        timed = {"MRMF_CPU_KERNELS": "timed", "XDG_CACHE_HOME": self.path("cache")}
        with mock.patch.dict(os.environ, timed):
            self.tables("config.toml")
            self.assertIn("run.deterministic takes the default ones", self.mrmf(*words, "run.deterministic=true"))
            self.assertNotIn("warning", self.mrmf(*words, "run.deterministic=false"))
        self.assertIn("choice of kernels", self.tables("config.toml", code=2))
        self.tables("config.toml", "--fresh")
        self.assertIn("default kernels", self.measured()["library"])
        self.assertNotIn("warning", self.mrmf(*words, "run.deterministic=true"))

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
