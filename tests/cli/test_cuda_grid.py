"""Samples shared by several ranks (run.grid) with device = "cuda", on the emulated device: test code that stands in for
a GPU, so nothing here says anything about one. CMake names the emulated module in MRMF_CUDA_MODULE."""
import sys

import h5py
import numpy as np

import support
from test_cuda import FUSABLE, MODULE, SGD, CudaTest

SHARED = ["--set", "run.ranks_share_gpu=true"]

# Classes of positions: the input's batch norm has a halo, branches meet where the grid cuts them.
U_NET = """
[data]
files = ["marks.h5"]
train = { samples = "x", labels = "y" }
split = { by = "rows", validation = 0.25 }
shards = 2
[[model.layers]]
type = "batch_norm"
[[model.layers]]
type = "conv"
filters = 6
kernel = [3, 3]
padding = "same"
[[model.layers]]
type = "group_norm"
groups = 2
[[model.layers]]
type = "relu"
name = "fine"
[[model.layers]]
type = "max_pool"
window = 2
[[model.layers]]
type = "conv"
filters = 8
kernel = [3, 3]
padding = "same"
[[model.layers]]
type = "batch_norm"
[[model.layers]]
type = "leaky_relu"
[[model.layers]]
type = "dropout"
rate = 0.1
[[model.layers]]
type = "upsample"
name = "back"
factor = 2
[[model.layers]]
type = "concat"
from = ["back", "fine"]
[[model.layers]]
type = "conv"
filters = 3
kernel = [3, 3]
padding = "same"
[training]
optimizer = { name = "sgd", learning_rate = 0.05 }
loss = [{ kind = "cross_entropy" }, { kind = "dice", weight = 0.5 }]
metric = "dice"
ignore = 7
classes = 3
class_weights = [1.0, 2.0, 0.5]
clip_norm = 0.5
batch = 4
epochs = 2
seed = 3
[method]
name = "baseline"
[run]
threads = 1
"""


def grid(blocks):
    return ["--set", f"run.grid={blocks}"]


class GridTest(CudaTest):
    # Between grids as on the CPU (test_grid.py), between devices the order of float32 sums, both under SGD.
    SPLIT, DEVICES = 2e-4, 2e-5

    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"), train=32, validation=12)

    def agree(self, blocks, words, ranks, alone=(), recorded=True):
        """A grid on the device learns as one rank there does, and as the same grid does on the CPU; captured steps
        change no bit."""
        one = self.train("one", *words, *alone)
        on = self.train("on", *words, *SHARED, *grid(blocks), ranks=ranks)
        cpu = self.train("cpu", *words, *grid(blocks), "--set", "run.deterministic=false", device="cpu", ranks=ranks)
        np.testing.assert_allclose(on, one, rtol=self.SPLIT)
        np.testing.assert_allclose(on, cpu, rtol=self.DEVICES)
        if recorded:
            off = self.train("off", *words, *SHARED, *grid(blocks), "--set", "run.graphs=false", ranks=ranks)
            np.testing.assert_array_equal(on, off)
        return on


class Vectors(GridTest):
    def setUp(self):
        super().setUp()
        self.config(replace=[("epochs = 3", "epochs = 2"), FUSABLE, ("layout = ", "shards = 2\nlayout = ")])

    def test_a_grid_trains_as_one_rank_does(self):
        self.agree([2], SGD, 2)  # the dense layer's weights are cut evenly, behind a flat batch norm

    def test_groups_of_ranks_with_row_parallel_weights_and_clipping(self):
        self.config(replace=[("epochs = 3", "epochs = 2"), FUSABLE, ("layout = ", "shards = 2\nlayout = "),
                             ('[[model.layers]]\ntype = "flatten"\n[[model.layers]]\ntype = "batch_norm"\n',
                              '[[model.layers]]\ntype = "flatten"\n')])  # cut by positions
        words = [*SGD, "--set", "training.clip_norm=0.2", "--set", "training.batch=8"]
        on = self.agree([2], words, 4, alone=["--set", "training.batch=16"], recorded=False)
        # In parts it is another run, whose batch norms see other samples at once.
        in_parts = [*words, *grid([2]), "--set", "training.accumulate=2"]
        parts = self.train("parts", *in_parts, *SHARED, ranks=4)
        cpu = self.train("cpu-parts", *in_parts, "--set", "run.deterministic=false", device="cpu", ranks=4)
        np.testing.assert_allclose(parts, cpu, rtol=self.DEVICES)
        self.environment(MRMF_EMULATED_GPUS="4")
        np.testing.assert_array_equal(self.train("cards", *words, *grid([2]), ranks=4), on)

    def test_one_fusion_and_two_grids(self):
        method = support.MRMF_METHOD[1].replace("[[4], [2], [1]]", "[[2], [1]]").replace("epochs = 2", "epochs = 1")
        self.config(replace=[("epochs = 3", "epochs = 2"), FUSABLE, ("layout = ", "shards = 4\nlayout = "),
                             (support.MRMF_METHOD[0], method)])
        stages = ["--set", "run.grid=[[2], [4]]", "--set", "method.stages=[{coarse = {batch = 8}}]"]
        one = self.train("one", *SGD)
        on = self.train("on", *SGD, *stages, *SHARED, ranks=4)
        np.testing.assert_allclose(on, one, rtol=self.SPLIT)
        copied = ["--set", "run.graphs=false", "--set", "run.resident=false"]  # neither recorded nor resident
        np.testing.assert_array_equal(self.train("copied", *SGD, *stages, *SHARED, *copied, ranks=4), on)
        cpu = self.train("cpu", *SGD, *stages, "--set", "run.deterministic=false", device="cpu", ranks=4)
        np.testing.assert_allclose(on, cpu, rtol=self.DEVICES)

    def test_it_stops_and_goes_on_with_another_grid(self):
        words = [*SGD, "--set", "training.epochs=4"]
        one = self.train("one", *words)
        self.train("many", *SGD, *SHARED, *grid([2]), ranks=2)
        for epochs, blocks in ((3, 3), (4, 1)):
            self.mrmf("train", "--continue", "many", "--set", f"training.epochs={epochs}", *grid([blocks]), ranks=blocks)
        np.testing.assert_allclose(self.losses("many"), one, rtol=self.SPLIT)
        # And from the CPU.
        self.train("half", *SGD, *grid([2]), "--set", "run.deterministic=false", device="cpu", ranks=2)
        self.mrmf("train", "--continue", "half", "--set", "training.epochs=4", "--set", "run.device=cuda", *SHARED,
                  *grid([2]), ranks=2)
        np.testing.assert_allclose(self.losses("half"), one, rtol=self.SPLIT)
        text = self.mrmf("evaluate", "many", "--epoch", "last")
        self.assertAlmostEqual(float(text.splitlines()[-1].split()[1]) / one[-1][1], 1, delta=self.SPLIT)

    def test_low_precision_trains(self):
        for precision, tolerance in (("tf32", 5e-3), ("bf16", 5e-2)):  # of 2^-10 and 2^-8 a rounding
            words = [*SGD, "--set", f"run.precision={precision}"]
            one, two = self.train("one", *words), self.train("two", *words, *SHARED, *grid([2]), ranks=2)
            np.testing.assert_allclose(two, one, rtol=tolerance)

    def test_four_outputs_in_bf16(self):
        """They are padded to eight, of half the bytes each: as many floats as four, and yet no floats."""
        flat = ('[[model.layers]]\ntype = "flatten"\n[[model.layers]]\ntype = "batch_norm"\n',
                '[[model.layers]]\ntype = "flatten"\n')
        self.config(replace=[("epochs = 3", "epochs = 2"), FUSABLE, ("layout = ", "shards = 2\nlayout = "), flat,
                             ("units = 8", "units = 4")])
        words = [*SGD, "--set", "run.precision=bf16"]
        one, two = self.train("one", *words), self.train("two", *words, *SHARED, *grid([2]), ranks=2)
        np.testing.assert_allclose(two, one, rtol=5e-2)


class Fields(GridTest):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(3)
        x = rng.normal(0, 1, (24, 12, 10, 1)).astype(np.float32)
        marks = (x[..., 0] > 0).astype(np.uint8) + (x[..., 0] > 1).astype(np.uint8)
        marks[::2, :5] = 7  # ignored, in the first block of some samples alone
        marks[3] = 7        # a sample without any label
        with h5py.File(self.path("marks.h5"), "w") as file:
            file["x"], file["y"] = x, marks
        self.write("config.toml", U_NET)

    def metrics(self, run):
        return [epoch["validation_dice"] for epoch in self.lines(run + "/epochs.jsonl")]

    def test_a_u_net_with_dice_norms_dropout_and_clipping(self):
        self.agree([2, 2], [], 4)
        np.testing.assert_allclose(self.metrics("on"), self.metrics("one"), atol=1e-3)

    def test_yes_or_no_and_numbers_of_positions(self):
        text = self.read("config.toml")
        loss = text[text.index("loss = "):text.index("clip_norm")]
        self.write("config.toml", text.replace(loss, "").replace("filters = 3", "filters = 1"))
        with h5py.File(self.path("marks.h5"), "a") as file:
            x = file["x"][:]
            del file["y"]
            file["y"] = (x > 0).astype(np.uint8)
        self.agree([2, 1], ["--set", 'training.loss=["binary_cross_entropy", "dice"]'], 2, recorded=False)
        with h5py.File(self.path("marks.h5"), "a") as file:
            del file["y"]
            file["y"] = 2 * x - 1
        self.agree([1, 2], ["--set", "training.loss=mse"], 2, recorded=False)


if __name__ == "__main__":
    if not MODULE:
        print("MRMF_CUDA_MODULE does not name the emulated CUDA module")
        sys.exit(77)
    support.main()
