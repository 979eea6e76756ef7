"""method.top = "stem": the whole coarse network follows behind a new first layer. Its run is evaluated, predicted with,
exported, imported, continued and compared like any other."""
import json
import os
import re

import h5py
import numpy as np

import safetensors_file
import support

METHOD = ('name = "baseline"', """name = "mrmf"
top = "stem"
resolutions = [[2], [1]]
coarse = { rule = "constant" }
stop = { coarse = { epochs = 3 }, finetune = { epochs = 2 } }""")
CARRY = ("--set", "method.moments=carry")
STILL = ("--set", "method.finetune.learning_rate=1e-12", "--set", "method.stop.finetune.epochs=1")
NORM_FIRST = "\n" + support.layers("batch_norm", "conv filters=6 kernel=4", "max_pool window=4", "relu", "flatten",
                                   "dense units=2")


class Stem(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"))
        self.config(replace=[METHOD])

    def train(self, folder, *more, **options):
        return self.mrmf("train", "config.toml", "--set", f"run.folder={folder}", *more, **options)

    def losses(self, run):
        return [epoch["validation_loss"] for epoch in self.lines(run + "/epochs.jsonl")]

    def prediction(self, model, *more):
        self.mrmf("predict", model, "-o", "p.h5", "--overwrite", *more)
        with h5py.File(self.path("p.h5")) as file:
            return file["prediction"][()]

    def test_the_loss_does_not_jump(self):
        # A last phase that learns nothing validates on full data what the coarse one did on averages. Batch norms take
        # statistics of all samples at once, so their order makes no difference.
        still = (*STILL, "--set", "training.precise_batch_norm=1", "--set", "training.batch=96")
        for layers in (support.LAYERS, NORM_FIRST):
            self.config(replace=[METHOD, (support.LAYERS, layers)])
            self.train("run", *still, "--overwrite")
            *_, coarse, last = self.losses("run")
            self.assertAlmostEqual(last / coarse, 1, delta=1e-4)
        self.train("moving")
        shape = self.model_arrays("moving/checkpoints/final.h5")["parameters/front/weight"].shape
        self.assertEqual(shape, (6, 2, 3))

    def test_a_trained_run_is_used_like_any_other(self):
        self.train("run", "--set", "training.early_stopping.patience=9")
        self.assertIn("40 samples", self.mrmf("evaluate", "run"))
        score, _ = json.JSONDecoder().raw_decode(self.mrmf("evaluate", "run", "--epoch", "last", "--json"))
        self.assertAlmostEqual(score["mse"], self.losses("run")[-1], delta=1e-5 * score["mse"])
        want = self.prediction("run")
        self.assertEqual(want.shape, (40, 2))
        # Full-resolution samples, also from a file with no labels and from the model's file alone.
        np.testing.assert_array_equal(self.prediction("run/checkpoints/final.h5"),
                                      self.prediction("run", "--epoch", "last"))
        self.mrmf("export", "run", "-o", "m.onnx")
        self.mrmf("export", "run", "-o", "m.safetensors")
        metadata, tensors = safetensors_file.read(self.path("m.safetensors"))
        self.assertEqual(metadata["sample"], "64x3")
        self.assertEqual(tensors["front.weight"].shape, (6, 2, 3))
        self.mrmf("import", "m.safetensors", "-o", "m.h5", "--config", "config.toml")
        np.testing.assert_array_equal(self.prediction("m.h5"), want)
        self.fails(3, "import", "m.safetensors", "-o", "n.h5", "--config", "config.toml", "--set", "method.name=baseline",
                   "--set", "method.top=dense", "--set", "method.resolutions=[[1]]", message="front")
        page = self.mrmf("inspect", "config.toml")
        self.assertEqual(len(re.findall(r"^ *front +bottom +32x6 ", page, re.M)), 1)
        self.assertEqual(len(re.findall(r"^ *conv1 +bottom +29x6 ", page, re.M)), 2)
        self.mrmf("report", "run", "-o", "report.html")
        self.assertIn("top stem", self.read("report.html"))

    def test_import_finds_the_stem_of_auto_in_the_file(self):
        self.config(replace=[('name = "baseline"', 'name = "auto"'), ("epochs = 3", "epochs = 6")])
        self.assertIn("auto: the last model is the coarse one behind a new first layer, front", self.mrmf("plan", "config.toml"))
        self.train("run")
        self.train("plain", "--set", "method.name=baseline")
        for run in ("run", "plain"):
            self.mrmf("export", run, "-o", "m.safetensors", "--overwrite")
            self.mrmf("import", "m.safetensors", "-o", "m.h5", "--config", "config.toml", "--overwrite")
            np.testing.assert_array_equal(self.prediction("m.h5"), self.prediction(run))

    def test_costs_are_in_epochs_of_the_network_as_configured(self):
        self.train("run")
        self.train("base", "--set", "method.name=baseline", "--set", "method.top=dense", "--set",
                   "method.resolutions=[[1]]", "--set", "method.coarse={}", "--set", "method.stop={}")
        result = json.loads(self.read("run/result.json"))
        full = self.lines("base/epochs.jsonl")[-1]["gflop"]
        self.assertEqual(result["top"], "stem")
        self.assertAlmostEqual(result["full_gflop"] / full, 1, places=9)
        self.assertNotIn("full_gflop", json.loads(self.read("base/result.json")))
        cost = sum(stage["gflop"] for stage in result["stages"]) / full
        self.assertIn(f"cost: {cost:.2f} epochs", self.mrmf("plan", "config.toml", "--set", "training.epochs=3"))
        table = self.mrmf("compare", "base", "run")
        self.assertRegex(table, rf"cost in full-resolution epochs +3.00 +{cost:.2f}\n")
        self.assertIn("another network than the baseline's", table)

    def test_killed_anywhere_it_ends_alike_and_goes_on_for_more_epochs(self):
        self.killed_anywhere("--set", "run.checkpoint.epochs=1")

    def test_carried_moments_survive_a_kill(self):
        self.killed_anywhere("--set", "run.checkpoint.epochs=1", *CARRY)
        self.train("new", "--set", "method.moments=reset")
        self.assertNotEqual(self.losses("new")[3:], self.losses("run")[3:5])
        self.assertEqual(self.losses("new")[:3], self.losses("run")[:3])

    def killed_anywhere(self, *words):
        self.train("straight", *words)
        for epochs in (1, 3, 4):
            self.kill_after(epochs, "train", "config.toml", "--set", "run.folder=run", *words)
        self.train("run", *words)
        self.same_models("run", "straight")
        self.assertEqual(self.losses("run"), self.losses("straight"))
        self.train("long", *words, "--set", "method.stop.finetune.epochs=4")
        self.mrmf("train", "--continue", "run", "--set", "training.epochs=4")
        self.same_models("run", "long")

    def test_a_checkpoint_of_either_phase_predicts(self):
        for epochs, resolution, role in ((2, "[2]", "coarse"), (5, "[1]", "finetune")):
            self.kill_after(epochs, "train", "config.toml", "--set", "run.folder=run", "--set", "run.checkpoint.epochs=1",
                            "--set", "method.stop.finetune.epochs=40")
            text = self.mrmf("evaluate", "run", "--checkpoint")
            self.assertIn(f"the {role} model of stage", text)
            self.assertIn(f"at resolution {resolution}", text)

    def test_ranks_that_cut_samples_compute_the_same(self):
        sgd = ("--set", "training.optimizer.name=sgd", "--set", "training.optimizer.learning_rate=0.02",
               "--set", "data.shards=1")
        for more in ((), CARRY):
            self.train("one", *sgd, *more, "--overwrite")
            self.train("two", *sgd, *more, "--set", "run.grid=[2]", "--overwrite", ranks=2)
            np.testing.assert_allclose(self.losses("two"), self.losses("one"), rtol=1e-3)
            a, b = self.model_arrays("one/checkpoints/final.h5"), self.model_arrays("two/checkpoints/final.h5")
            for name in ("parameters/front/weight", "parameters/conv1/weight", "parameters/dense1/weight"):
                np.testing.assert_allclose(b[name], a[name], atol=2e-3, err_msg=name)

    def test_carried_moments_are_the_same_bits_on_any_number_of_ranks(self):
        words = (*CARRY, "--set", "run.deterministic=true", "--set", "data.shards=2")
        self.train("one", *words)
        self.train("two", *words, "--set", "training.batch=8", ranks=2)
        self.same_models("one", "two")

    def test_a_coarse_phase_may_end_by_its_slope(self):
        stale = ("--set", "method.switch=slope", "--set", "method.probe=0.4", "--set", "method.coarse.learning_rate=1e-12",
                 "--set", "method.stop.coarse.epochs=8")
        for more in ((), CARRY):
            self.train("slope", *stale, *more, "--overwrite")
            self.assertEqual([(s["epochs"], s["reason"]) for s in self.lines("slope/stages.jsonl")],
                             [(4, "slope"), (2, "epochs")])
            self.train("fixed", *stale, *more, "--set", "method.switch=epochs", "--set", "method.stop.coarse.epochs=4",
                       "--overwrite")
            self.same_models("slope", "fixed")

    def test_planes_and_cubes_stream_and_deterministic(self):
        rng = np.random.default_rng(2)
        for axes in (2, 3):
            with h5py.File(self.path("data.h5"), "w") as file:
                for split, count in (("train", 24), ("val", 8)):
                    x = rng.normal(0, 1, (count, *[16] * axes, 3)).astype("float32")
                    file[f"{split}_frames"] = x
                    file[f"{split}_unitStar_par"] = x.mean(axis=tuple(range(1, axes + 1)))[:, :2]
            layers = "\n" + support.layers("batch_norm", "conv filters=4 kernel=3", "relu", "average_pool window=2", "flatten",
                                           "dense units=2")
            self.config(replace=[(METHOD[0], METHOD[1].replace("[2], [1]", f"{[2] * axes}, {[1] * axes}")),
                                 (support.LAYERS, layers), ("batch = 16", "batch = 4")])
            self.train("memory", "--set", "run.deterministic=true", "--overwrite")
            self.train("stream", "--set", "run.deterministic=true", "--set", "data.load=stream", "--overwrite")
            self.same_models("memory", "stream")
            self.assertIn("8 samples", self.mrmf("evaluate", "memory"))

    def test_refused_before_data_are_read(self):
        for word, message in (("method.resolutions=[[4],[2],[1]]", 'method.top = "stem" puts one layer between two'),
                              ("method.teams=concurrent", "method.teams"), ("method.bottom=fresh", "method.bottom"),
                              ('model.layers=[{type="flatten"},{type="dense",units=2}]', "flatten (flatten) comes before")):
            self.fails(2, "train", "config.toml", "--set", word, message=message)
        self.fails(2, "train", "config.toml", "--set", 'model.layers=[{type="conv",filters=2,kernel=1}]',
                   message="keeps the coarse network's output, which is 32x2")
        self.assertFalse(os.path.exists(self.path("run")))


if __name__ == "__main__":
    support.main()
