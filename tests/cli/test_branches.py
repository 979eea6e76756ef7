"""Networks with branches through the command line: residual blocks and skips, from the list of layers to a run's files."""
import os

import h5py
import numpy as np

import support

SGD = ["--set", "training.optimizer.name=sgd", "--set", "training.optimizer.learning_rate=0.02"]

RESIDUAL = """
[[model.layers]]
type = "conv"
name = "stem"
filters = 6
kernel = 3
padding = "same"
[[model.layers]]
type = "batch_norm"
name = "norm1"
[[model.layers]]
type = "relu"
name = "relu1"
[[model.layers]]
type = "conv"
name = "inner"
filters = 6
kernel = 3
padding = "same"
[[model.layers]]
type = "batch_norm"
name = "norm2"
[[model.layers]]
type = "add"
name = "sum"
from = ["norm2", "relu1"]
[[model.layers]]
type = "relu"
[[model.layers]]
type = "average_pool"
name = "half"
window = 2
[[model.layers]]
type = "average_pool"
name = "skip"
from = "input"
window = 2
[[model.layers]]
type = "concat"
from = ["half", "skip"]
[[model.layers]]
type = "conv"
name = "last"
filters = 4
kernel = 3
[[model.layers]]
type = "max_pool"
window = 4
[[model.layers]]
type = "flatten"
[[model.layers]]
type = "dense"
units = 2
"""


class Branches(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"))
        self.write("config.toml", support.CONFIG.split("[[model.layers]]")[0] + RESIDUAL)

    def losses(self, run):
        return np.array([[e["train_loss"], e["validation_loss"]] for e in self.lines(run + "/epochs.jsonl")])

    def refused(self, *sets, message):
        words = [word for one in sets for word in ("--set", one)]
        self.fails(2, "train", "config.toml", *words, message=message)
        self.assertFalse(os.path.exists(self.path("run")), "a run folder was left behind")

    def test_it_learns_and_its_files_hold_the_network(self):
        self.mrmf("train", "config.toml", "--set", "training.epochs=20")
        losses = self.losses("run")
        self.assertLess(losses[-1][1], 0.3 * losses[0][1])
        text = self.read("run/config.toml")
        self.assertIn('from = ["norm2", "relu1"]', text)
        self.assertIn('from = "input"', text)
        output = self.mrmf("evaluate", "run", "--epoch", "last")
        mean = [line.split() for line in output.splitlines() if line.strip().startswith("mean")][0]
        self.assertAlmostEqual(float(mean[1]), losses[-1][1], places=5)
        self.mrmf("predict", "run", "-o", "out.h5", "--epoch", "last")
        with h5py.File(self.path("run/checkpoints/final.h5")) as file:
            self.assertEqual(set(file["parameters"]), {"stem", "norm1", "inner", "norm2", "last", "dense1"})

    def test_ranks_and_backends_do_not_change_the_losses(self):
        shards = ["--set", "data.shards=2", *SGD]
        self.mrmf("train", "config.toml", *shards, "--set", "run.folder=one")
        self.mrmf("train", "config.toml", *shards, "--set", "run.folder=two", "--set", "training.batch=8", ranks=2)
        self.mrmf("train", "config.toml", *shards, "--set", "run.folder=slow", "--set", "run.backend=reference")
        for other in ("two", "slow"):
            np.testing.assert_allclose(self.losses(other), self.losses("one"), rtol=5e-6)  # sums in another order

    def test_shard_by_shard_ranks_do_not_change_a_bit(self):
        exact = ["--set", "data.shards=2", "--set", "run.deterministic=true"]
        self.mrmf("train", "config.toml", *exact, "--set", "run.folder=one")
        self.mrmf("train", "config.toml", *exact, "--set", "run.folder=two", "--set", "training.batch=8", ranks=2)
        np.testing.assert_array_equal(self.losses("one"), self.losses("two"))

    def test_every_method_fuses_it(self):
        two = ["--set", "method.resolutions=[[2],[1]]", "--set", "method.stop.coarse.epochs=2"]
        for name in ("mrt", "mrmf", "progressive"):
            self.mrmf("train", "config.toml", *two, "--set", f"method.name={name}", "--set", f"run.folder={name}")
            self.assertTrue(np.isfinite(self.losses(name)).all())

    def test_inspect_shows_what_layers_read_and_the_arena(self):
        text = self.mrmf("inspect", "config.toml")
        rows = {line.split()[0]: line for line in text.splitlines() if line.startswith("  ")}
        self.assertIn(" norm2, relu1 ", rows["sum"])
        self.assertIn(" input ", rows["skip"])
        self.assertIn(" half, skip ", rows["concat1"])
        self.assertIn("32x9", rows["concat1"])
        self.assertRegex(text, r"activations and their gradients lie in one arena of [0-9.]+ [kM]B; each by itself they")
        self.assertIn("fuse", self.mrmf("plan", "config.toml", "--set", "method.name=mrmf", "--set",
                                        "method.resolutions=[[2],[1]]"))

    def test_names_that_cannot_be_read(self):
        self.refused("model.layers[5].from=[\"norm2\",\"relu9\"]", message='sum: from names "relu9", and no layer has that name')
        self.refused("model.layers[5].from=[\"norm2\",\"last\"]", message='sum: from names "last", which comes later in the list')
        self.refused("model.layers[5].from=[\"norm2\",\"norm2\"]", message='sum: from names "norm2" twice')
        self.refused("model.layers[5].from=norm2", message="sum: add takes from = [")
        self.refused("model.layers[8].from=[\"input\",\"half\"]", message="skip: from names 2 layers, and average_pool takes one")
        self.refused("model.layers[5].from=3", message="model.layers[5].from is 3; it must be the name of an earlier layer, or a list")
        self.refused("model.layers[5].from=[]", message="it must be the name of an earlier layer, or a list")
        self.refused("model.layers[10].from=skip", message="concat1: no later layer reads its output")
        self.refused("model.layers[0].name=input", message="input: this name stands for the network's input")
        self.refused("model.layers[3].name=stem", message="two layers of the model are named 'stem'")

    def test_shapes_that_do_not_go_together(self):
        self.refused("model.layers[3].filters=5", message="sum: norm2 gives 64x5 and relu1 gives 64x6; only equal shapes are added")
        self.refused("model.layers[8].window=3", message="concat1: half gives 32x6 and skip gives 21x3; they may differ in their channels alone")

    def test_a_cut_that_divides_a_branch(self):
        message = 'model.cut = "norm2" divides a branch: sum of the top reads relu1 of the bottom, past the cut; '
        self.refused("model.cut=norm2", message=message)
        self.assertIn('set it to "last"', self.fails(2, "plan", "config.toml", "--set", "model.cut=norm2", message=message))
        self.mrmf("plan", "config.toml", "--set", "model.cut=last")

    def test_named_layers_are_the_bottom(self):
        named = ["--set", 'model.bottom=["norm*", "stem"]']
        text = self.mrmf("inspect", "config.toml", *named)
        groups = {line.split()[0]: line for line in text.splitlines() if line.startswith("  ")}
        for name in ("norm1", "norm2", "stem"):
            self.assertIn(" bottom ", groups[name])
        self.assertIn(" top ", groups["sum"])
        two = ["--set", "method.resolutions=[[2],[1]]", "--set", "method.name=mrmf", *named]
        self.mrmf("train", "config.toml", *two, "--set", "method.stop.coarse.epochs=2", "--set", "run.folder=named")
        self.assertTrue(np.isfinite(self.losses("named")).all())
        self.fails(2, "plan", "config.toml", *two, "--set", "method.moments=carry",
                   message='method.moments = "carry" needs a bottom of the first layers')
        self.refused('model.bottom=["nrom*"]', message='model.bottom names "nrom*", which names no layer')
        self.refused('model.bottom=["stem"]', "model.cut=last", message="model.cut and model.bottom are both given; keep one")

    def test_without_a_top_everything_is_handed_over(self):
        text = self.read("config.toml").split('[[model.layers]]\ntype = "max_pool"')[0]
        self.write("config.toml", text)
        words = ["--sample", "64x3", "--set", "method.resolutions=[[2],[1]]"]
        self.fails(2, "plan", "config.toml", *words, "--set", "method.name=mrmf",
                   message='with method.top = "dense" a dense model would be trained for nothing; set method.top to "interpolated"')
        for name in ("mrt", "progressive", "mrmf"):
            top = ["--set", "method.top=interpolated"] if name == "mrmf" else []
            self.mrmf("plan", "config.toml", *words, "--set", f"method.name={name}", *top)


if __name__ == "__main__":
    support.main()
