"""Samples shared by several ranks (run.grid) through the command line: as without a grid, in every method, stopped and
gone on with, and refused where it cannot be."""
import os
import shutil
import signal
import time

import h5py
import numpy as np

import support

# The batch is that of a group of ranks; one group of all ranks takes the batches of one rank without a grid.
SETTINGS = ("run.threads=1", "data.shards=1", "training.epochs=2")
SGD = ('optimizer = { name = "adam", learning_rate = 3e-3 }', 'optimizer = { name = "sgd", learning_rate = 0.02 }')


def words(run, *settings, config="config"):
    """Trains in this folder."""
    settings = (*SETTINGS, *settings, f"run.folder={run}")
    return ["train", f"{config}.toml", *(word for setting in settings for word in ("--set", setting))]


class Grid(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"), train=48, validation=17)
        self.config(replace=[SGD])

    def train(self, run, *settings, config="config", ranks=0):
        return self.mrmf(*words(run, *settings, config=config), ranks=ranks)

    def own_config(self, name, layers, axes="", training="", method='name = "baseline"'):
        """NAME.toml, for data sets x and y of NAME.h5."""
        self.write(f"{name}.toml", f"""
[data]
files = ["{name}.h5"]
train = {{ samples = "x", labels = "y" }}
{axes}
split = {{ by = "rows", validation = 0.25 }}
{layers}
[training]
batch = 4
{training}
[method]
{method}
""")

    def same(self, run, other, tolerance=2e-4):
        for a, b in zip(self.lines(f"{run}/epochs.jsonl"), self.lines(f"{other}/epochs.jsonl"), strict=True):
            for key in ("train_loss", "validation_loss"):
                self.assertAlmostEqual(a[key] / b[key], 1, delta=tolerance, msg=f"{key} {a[key]} {b[key]}")
            for key in ("samples", "batch", "stage", "role", "gflop"):
                self.assertEqual(a[key], b[key], key)

    def test_a_grid_trains_as_one_rank_does(self):
        self.config(replace=[SGD, support.MRMF_METHOD])  # coarse, dense and fused models, each cut
        self.train("one")
        output = self.train("grid", "run.grid=[2]", ranks=2)
        self.assertIn("each sample is shared by 2 ranks", output)
        self.same("grid", "one")
        self.train("three", "run.grid=[3]", ranks=3)
        self.same("three", "one")

    def test_ranks_read_their_blocks_from_every_kind_of_file(self):
        rng = np.random.default_rng(2)
        x = rng.normal(0, 1, (16, 2, 12, 10)).astype(np.float32)  # channels first
        for name, kind in (("plain", {}), ("chunked", {"chunks": (3, 1, 5, 4), "compression": "gzip"}), ("wide", {"dtype": "f8"})):
            with h5py.File(self.path(f"{name}.h5"), "w") as file:
                file.create_dataset("x", data=x, **kind)
                file["y"] = x[:, 0, 3, :3]
            self.own_config(name, support.layers('conv filters=4 kernel=[3,3] padding="same"', "flatten", "dense units=3"),
                            axes='axes = "n c y x"', method='name = "mrmf"\nresolutions = [[2, 2], [1, 1]]\ntop = "interpolated"')
            self.train(f"{name}-one", config=name)
            for load in ("memory", "stream"):
                run = f"{name}-{load}"
                self.train(run, "run.grid=[2, 2]", f"data.load={load}", config=name, ranks=4)
                self.same(run, f"{name}-one")

    def test_groups_of_ranks_share_out_the_samples(self):
        self.train("two", "data.shards=2", ranks=2)
        self.train("groups", "data.shards=2", "run.grid=[2]", ranks=4)
        self.same("groups", "two")

    def test_it_goes_on_without_the_grid(self):
        self.train("one", "training.epochs=4", "method.name=baseline")
        self.train("half", "method.name=baseline", "run.grid=[2]", ranks=2)
        self.mrmf("train", "--continue", "half", "--set", "training.epochs=4", "--set", "run.grid=[1]")
        self.same("half", "one")

    def test_it_goes_on_with_another_grid(self):
        # Weights that ranks cut are whole in checkpoints and models: evenly, and by positions.
        rates = ["method.name=baseline", 'training.optimizer={name = "adam", learning_rate = 0.002, epsilon = 1e-3}',
                 "training.clip_norm=0.5"]
        for replace in ([], [('[[model.layers]]\ntype = "batch_norm"\n', "")]):
            self.config(replace=replace)
            self.train("one", "training.epochs=5", *rates)
            self.train("many", *rates, "run.grid=[2]", ranks=2)
            for epochs, blocks in ((3, 3), (4, 1), (5, 2)):
                self.mrmf("train", "--continue", "many", "--set", f"training.epochs={epochs}", "--set",
                          f"run.grid=[{blocks}]", ranks=blocks)
            self.same("many", "one")
            losses = [epoch["validation_loss"] for epoch in self.lines("many/epochs.jsonl")]
            for which, wanted in (("last", losses[-1]), ("best", min(losses))):
                output = self.mrmf("evaluate", "many", "--epoch", which)
                self.assertAlmostEqual(float(output.splitlines()[-1].split()[1]) / wanted, 1, delta=1e-4)
            for run in ("one", "many"):
                shutil.rmtree(self.path(run))

    def test_killed_and_gone_on_with_another_grid(self):
        often = ["run.checkpoint.epochs=1", "training.epochs=40", "method.name=baseline"]
        words = [word for setting in (*SETTINGS, *often, "run.folder=many") for word in ("--set", setting)]

        def killed():
            process = self.launch("train", "config.toml", *words, "--set", "run.grid=[3]", ranks=3)
            deadline = time.monotonic() + 60
            while not os.path.exists(self.path("many/checkpoints/step-1.h5")) and time.monotonic() < deadline:
                time.sleep(0.01)
            for pid in support.ranks_of(process).values():
                os.kill(pid, signal.SIGKILL)
            output = process.communicate(timeout=60)[0]
            return process.returncode, output
        self.interrupted("many", killed)
        self.train("one", *often)
        self.train("many", *often, "run.grid=[2]", ranks=2)
        self.same("many", "one", tolerance=2e-3)

    def test_outputs_with_positions(self):
        rng = np.random.default_rng(1)
        with h5py.File(self.path("fields.h5"), "w") as file:
            x = rng.normal(0, 1, (24, 12, 10, 2)).astype(np.float32)
            file["x"] = x
            file["y"] = x[..., :1] * 2 - np.roll(x[..., 1:], 1, axis=1)
        self.own_config("fields", support.layers('conv filters=4 kernel=[3,3] padding="same"', "batch_norm", "dropout rate=0.1",
                                                 "conv filters=1 kernel=[1,1]"))
        self.train("one", config="fields")
        self.train("grid", "run.grid=[2, 2]", config="fields", ranks=4)
        self.same("grid", "one")

    def test_classes_of_positions(self):
        rng = np.random.default_rng(3)
        with h5py.File(self.path("marks.h5"), "w") as file:
            x = rng.normal(0, 1, (24, 12, 10, 1)).astype(np.float32)
            file["x"], file["y"] = x, (x[..., 0] > 0).astype(np.uint8)
        self.own_config("marks", support.layers('conv filters=2 kernel=[3,3] padding="same"'),
                        training='loss = "cross_entropy"\nmetric = "accuracy"')
        self.train("one", config="marks")
        self.train("grid", "run.grid=[3, 1]", config="marks", ranks=3)
        self.same("grid", "one")
        for one, grid in zip(self.lines("one/epochs.jsonl"), self.lines("grid/epochs.jsonl")):
            self.assertAlmostEqual(one["validation_accuracy"], grid["validation_accuracy"], delta=1e-3)
        for setting, message in (("training.ignore=1", "run.grid: with training.ignore"),
                                 ("training.loss=dice", "run.grid: a dice loss of outputs with positions")):
            self.fails(2, *words("no", "run.grid=[3, 1]", setting, config="marks"), ranks=3, message=message)

    def test_what_does_not_go(self):
        def refused(message, *settings, ranks):
            self.fails(2, *words("no", *settings), message=message, ranks=ranks)
            self.assertFalse(os.path.exists(self.path("no/result.json")))
        refused("run.grid = 1x1x2 shares each sample among 2 ranks, and there are 3", "run.grid=[2]", ranks=3)
        refused("run.grid does not go with run.deterministic", "run.grid=[2]", "run.deterministic=true", ranks=2)
        self.config(replace=[SGD, support.MRMF_METHOD])
        refused('run.grid does not go with method.teams = "concurrent"', "run.grid=[2]", 'method.teams="concurrent"',
                ranks=2)


if __name__ == "__main__":
    support.main()
