"""Samples shared by several ranks (run.grid) through the command line: as without a grid, in every method, stopped and
continued, and refused where it cannot be."""
import itertools
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
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


STOPPED = 75

# Fields whose labels are numbers or classes of every position.
FIELDS = """
[data]
files = ["{name}.h5"]
train = {{ samples = "x", labels = "y" }}
split = {{ by = "rows", validation = 0.25 }}
[[model.layers]]
type = "conv"
filters = 4
kernel = [3, 3]
padding = "same"
{middle}
[[model.layers]]
type = "conv"
filters = {outputs}
kernel = [1, 1]
[training]
batch = 4
{training}
[method]
name = "baseline"
"""


def by_stage(grids, ranks, batch=16):
    """Settings of a run on so many ranks with a grid for each of three resolutions, and the same mini-batches always."""
    first, second, third = (batch * math.prod(grid) // ranks for grid in grids)
    return [f"run.grid={[list(grid) for grid in grids]}", "data.shards=4", f"training.batch={third}",
            f"method.stages=[{{coarse = {{batch = {first}}}, dense = {{batch = {second}}}}}, "
            f"{{coarse = {{batch = {second}}}, dense = {{batch = {third}}}}}]"]


class Grid(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"), train=48, validation=17)
        self.config()

    def config(self, replace=()):
        super().config(replace=[SGD, *replace])

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

    def same(self, run, other, tolerance=2e-4, keys=("samples", "batch", "stage", "role", "gflop")):
        for a, b in zip(self.lines(f"{run}/epochs.jsonl"), self.lines(f"{other}/epochs.jsonl"), strict=True):
            metrics = [key for key in b if key.startswith("validation_") and key != "validation_loss"]
            for key in ("train_loss", "validation_loss"):
                self.assertAlmostEqual(a[key] / b[key], 1, delta=tolerance, msg=f"{key} {a[key]} {b[key]}")
            for key in metrics:
                self.assertAlmostEqual(a[key], b[key], delta=1e-3, msg=key)
            for key in keys:
                self.assertEqual(a[key], b[key], key)

    def test_a_grid_trains_as_one_rank_does(self):
        self.config(replace=[support.MRMF_METHOD])  # coarse, dense and fused models, each cut
        self.train("one")
        output = self.train("grid", "run.grid=[2]", ranks=2)
        self.assertIn("each sample is shared by 2 ranks", output)
        self.same("grid", "one")

    def test_every_stage_has_its_own_grid(self):
        self.config(replace=[support.MRMF_METHOD])
        grids = by_stage(((1,), (2,), (4,)), 4)
        self.train("one", "data.shards=4")
        output = self.train("stages", *grids, ranks=4)
        for line in ("grid: resolution [4]: each rank has its own samples",
                     "grid: resolution [2]: each sample is shared by 2 ranks, 2 blocks along its axes; 2 groups of ranks",
                     "grid: resolution [1]: each sample is shared by 4 ranks, 4 blocks along its axes; 1 group of ranks"):
            self.assertIn(line, output)
        sizes = ("samples", "stage", "role", "gflop")
        self.same("stages", "one", keys=sizes)
        self.assertEqual([(e["stage"], e["role"], e.get("grid"), e["batch"]) for e in self.lines("stages/epochs.jsonl")
                          if e["epoch"] == 1],
                         [(1, "coarse", None, 4), (1, "dense", [2], 8), (2, "coarse", [2], 8), (2, "dense", [4], 16),
                          (3, "finetune", [4], 16)])
        plan = json.loads(self.read("stages/plan.json"))
        self.assertEqual([step.get("grid") for step in plan["steps"] if step["step"] == "train"],
                         [None, [2], [2], [4], [4]])
        self.assertRegex(self.mrmf("plan", "config.toml", "--set", "run.grid=[[1], [2], [4]]"),
                         r"train  coarse    resolution \[4\]       batch .*\n.*train  dense     resolution \[2\]       grid \[2\]")
        # Cut further where it is coarse, and streamed.
        self.train("back", *by_stage(((2,), (1,), (2,)), 2), "data.load=stream", "data.memory=1 MB", ranks=2)
        self.same("back", "one", keys=sizes)
        self.train("others", *by_stage(((2,), (3,), (6,)), 6, 12), "data.shards=6", ranks=6)  # no group is part of another
        self.train("twelve", "data.shards=6", "training.batch=12")
        self.same("others", "twelve", keys=sizes)

    def stop_after(self, epochs, how, run, settings, ranks):
        """Starts a run, and ends it with a signal, to all ranks or to one, once so many epochs are on record."""
        def written():
            try:
                return self.read(run + "/epochs.jsonl").count("\n")
            except FileNotFoundError:
                return 0

        wanted = max(epochs, written() + 1)  # of this start too: before that, the program may not handle signals yet

        def attempt():
            process = self.launch(*words(run, *settings), ranks=ranks)
            deadline = time.monotonic() + 300
            while written() < wanted and process.poll() is None:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.002)
            time.sleep(random.uniform(0, 0.02))
            if process.poll() is None:
                if how == signal.SIGKILL:
                    os.kill(support.ranks_of(process)[ranks - 1], how)
                else:
                    process.send_signal(how)
            output = process.communicate(timeout=300)[0]
            return process.returncode, output

        return self.interrupted(run, attempt)

    def test_stopped_and_killed_in_every_stage_it_goes_on_with_other_grids(self):
        support.make_data(self.path("data.h5"), train=480, validation=17)
        self.config(replace=[support.MRMF_METHOD,
                             ("epochs = 2 }, dense = { epochs = 1 }, finetune = { epochs = 2 }",
                              "epochs = 3 }, dense = { epochs = 2 }, finetune = { epochs = 6 }")])
        longer = ["run.checkpoint.epochs=1"]
        starts = ((1, signal.SIGUSR1, ((1,), (2,), (4,)), 4), (4, signal.SIGKILL, ((2,), (2,), (1,)), 2),
                  (6, signal.SIGUSR1, ((2,), (4,), (1,)), 4), (9, signal.SIGKILL, ((1,), (1,), (2,)), 2),
                  (12, signal.SIGUSR1, ((4,), (1,), (2,)), 4))
        for epochs, how, grids, ranks in starts:
            code, output = self.stop_after(epochs, how, "run", [*by_stage(grids, ranks, 48), *longer], ranks)
            self.assertNotEqual(code, 0)
            if how == signal.SIGUSR1:
                self.assertEqual(code, STOPPED, output)
        self.fails(2, *words("run", *by_stage(((1,), (1,), (2,)), 2, 24), *longer), ranks=2,
                   message="where stage 1 (coarse, resolution [4]) has mini-batches of 48 from 4 shards of the data, and "
                           "here of 24 from 4")
        self.train("run", *by_stage(((1,), (1,), (1,)), 1, 48), *longer)
        self.train("straight", "data.shards=4", "training.batch=48", *longer)
        self.same("run", "straight", keys=("samples", "stage", "role", "gflop"), tolerance=5e-4)

    def test_every_method_on_grids(self):
        methods = {
            "mrt": 'name = "mrt"\nresolutions = [[2], [1]]',
            "interpolated": 'name = "mrmf"\nresolutions = [[4], [2], [1]]\ntop = "interpolated"',
            "progressive": 'name = "progressive"\nresolutions = [[2], [1]]',
            "stem": 'name = "mrmf"\nresolutions = [[2], [1]]\ntop = "stem"',
            "auto": 'name = "auto"'}
        for (name, method), ranks in zip(methods.items(), itertools.cycle((2, 3))):
            self.config(replace=[('name = "baseline"', method)])
            self.train(name)
            self.train(name + "-grid", f"run.grid=[{ranks}]", ranks=ranks)
            self.same(name + "-grid", name, tolerance=1e-3)
        slope = 'name = "mrmf"\nresolutions = [[2], [1]]\ntop = "interpolated"\nswitch = "slope"\nprobe_epochs = 1'
        self.config(replace=[('name = "baseline"', slope)])
        self.train("slope-stages", "run.grid=[[1], [2]]", "data.shards=2", "training.batch=16", "method.coarse.batch=8",
                   ranks=2)
        self.train("slope-one", "data.shards=2")
        self.same("slope-stages", "slope-one", tolerance=1e-3, keys=("samples", "stage", "role"))

    TEN_STEPS = ("training.batch=4", "training.epochs=1", "data.shuffle=false")

    def weights(self, run):
        with h5py.File(self.path(f"{run}/checkpoints/final.h5")) as file:
            return self.arrays(file)

    def ten_steps(self, config, grids):
        """Losses and weights after ten steps of SGD on these grids, against those of one rank."""
        self.train(f"{config}-one", *self.TEN_STEPS, config=config)
        self.assertEqual(self.lines(f"{config}-one/epochs.jsonl")[-1]["samples"], 40)
        whole = self.weights(f"{config}-one")
        for grid in grids:
            run = f"{config}-{'x'.join(map(str, grid))}"
            self.train(run, *self.TEN_STEPS, f"run.grid={grid}", config=config, ranks=math.prod(grid))
            self.same(run, f"{config}-one", tolerance=1e-5)
            for name, values in self.weights(run).items():
                np.testing.assert_allclose(values, whole[name], rtol=0, atol=2e-5 * max(1, np.abs(whole[name]).max()),
                                           err_msg=f"{name} on {grid}")

    def test_ten_steps_on_every_number_of_ranks(self):  # tests/mpi/test_grid.cpp has the others
        support.make_data(self.path("data.h5"), train=40, validation=8)
        self.config()
        self.ten_steps("config", [[3], [8]])

    def test_ten_steps_on_planes_and_cubes(self):
        rng = np.random.default_rng(9)
        for name, shape, kernel, grids in (("plane", (13, 10), "[3,3]", ([1, 2], [3, 1])),
                                           ("cube", (6, 9, 8), "[3,3,3]", ([2, 1, 2],))):
            x = rng.normal(0, 1, (50, *shape, 2)).astype(np.float32)
            with h5py.File(self.path(f"{name}.h5"), "w") as file:
                file["x"] = x
                file["y"] = x.reshape(50, -1)[:, :3]
            self.own_config(name, support.layers(f'conv filters=4 kernel={kernel} padding="same"', "batch_norm", "relu",
                                                 "average_pool window=2", f'conv filters=4 kernel={kernel} padding="same"',
                                                 "flatten", "dense units=6", "relu", "dense units=3"),
                            training='optimizer = { name = "sgd", learning_rate = 0.02 }')
            self.write(f"{name}.toml", self.read(f"{name}.toml").replace("validation = 0.25", "validation = 0.2"))
            self.ten_steps(name, grids)

    def test_a_deterministic_grid_repeats_every_bit(self):
        for run in ("first", "again"):
            self.train(run, "run.deterministic=true", "data.shards=0", "run.grid=[2]", ranks=2)
        first, again = self.weights("first"), self.weights("again")
        for name, values in first.items():
            np.testing.assert_array_equal(values, again[name], err_msg=name)

    @staticmethod
    def arrays(file):
        found = {}
        file.visititems(lambda name, item: found.update({name: item[()]})
                        if isinstance(item, h5py.Dataset) and item.dtype.kind == "f" else None)
        return found

    def test_ranks_read_their_blocks_from_every_kind_of_file(self):
        rng = np.random.default_rng(2)
        x = rng.normal(0, 1, (16, 2, 12, 10)).astype(np.float32)  # channels first
        chunks = {"chunks": (3, 1, 5, 4), "compression": "gzip"}
        # Of [2, 1] and then [1, 2] the groups of ranks are the same, and the blocks are not.
        for name, kind, grid, ranks, loads in (("plain", {}, [1, 2], 2, ["stream"]),
                                               ("wide", {"dtype": "f8"}, [[2, 1], [1, 2]], 2, ["memory"]),
                                               ("chunked", chunks, [2, 2], 4, ["memory", "stream"])):
            with h5py.File(self.path(f"{name}.h5"), "w") as file:
                file.create_dataset("x", data=x, **kind)
                file["y"] = x[:, 0, 3, :3]
            self.own_config(name, support.layers('conv filters=4 kernel=[3,3] padding="same"', "flatten", "dense units=3"),
                            axes='axes = "n c y x"', method='name = "mrmf"\nresolutions = [[2, 2], [1, 1]]\ntop = "interpolated"')
            if name == "plain":  # the others have the same numbers
                self.train("one", config=name)
            for load in loads:
                run = f"{name}-{load}"
                self.train(run, f"run.grid={grid}", f"data.load={load}", config=name, ranks=ranks)
                self.same(run, "one")

    def test_streamed_blocks_are_kept_and_shuffled_as_whole_samples_are(self):
        rng = np.random.default_rng(6)
        x = rng.normal(0, 1, (40, 48, 40, 2)).astype(np.float32)
        settings = ["data.load=stream", "data.shuffle_over=all", "training.epochs=3"]
        memory = ["data.memory=0.0019"]  # less than the blocks and all labels, which each of the ranks has
        self.field_runs("kept", *settings, ranks=4, grid=[2, 1], x=x, y=x[..., :1] * 2, shared=[*memory, "data.shards=2"],
                        alone=["training.batch=8", "data.shards=2"], keys=("samples", "stage", "role"))
        log = self.read([name for name in os.listdir(self.folder) if "-grid-" in name][0] + "/log.txt")
        kept = re.search(r"streamed; in memory stay (\d+) of 70 samples at", log)
        self.assertIsNotNone(kept, log)
        self.assertGreater(int(kept[1]), 0)
        self.assertLess(int(kept[1]), 70)

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
        # The former go on with none in test_it_goes_on_without_the_grid.
        rates = ["method.name=baseline", 'training.optimizer={name = "adam", learning_rate = 0.002, epsilon = 1e-3}',
                 "training.clip_norm=0.5"]
        for replace, grids in (([], (2, 3)), ([('[[model.layers]]\ntype = "batch_norm"\n', "")], (1, 3, 2))):
            self.config(replace=replace)
            self.train("one", f"training.epochs={len(grids)}", *rates)
            self.train("many", *rates, "training.epochs=1", f"run.grid=[{grids[0]}]", ranks=grids[0])
            for epochs, blocks in enumerate(grids[1:], 2):
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
        often = ["run.checkpoint.epochs=1", "training.epochs=20", "method.name=baseline"]
        def killed():
            process = self.launch(*words("many", *often, "run.grid=[3]"), ranks=3)
            deadline = time.monotonic() + 60
            while not os.path.exists(self.path("many/checkpoints/phase-1.h5")) and time.monotonic() < deadline:
                time.sleep(0.01)
            for pid in support.ranks_of(process).values():
                os.kill(pid, signal.SIGKILL)
            output = process.communicate(timeout=60)[0]
            return process.returncode, output
        self.interrupted("many", killed)
        self.train("one", *often)
        self.train("many", *often, "run.grid=[2]", ranks=2)
        self.same("many", "one", tolerance=2e-3)

    def field_runs(self, name, *settings, ranks, grid, middle="", outputs=1, training="", x=None, y=None, alone=(),
                   shared=(), one=None, **compared):
        """Trains on one rank, unless that run is there, and on a grid, and compares; returns the run on one rank."""
        if x is not None:
            with h5py.File(self.path(f"{name}.h5"), "w") as file:
                file["x"], file["y"] = x, y
        self.write(f"{name}.toml", FIELDS.format(name=name, middle=middle, outputs=outputs, training=training))
        words = ["train", f"{name}.toml", "--set", "run.threads=1", "--set", "data.shards=1", "--set", "training.epochs=2"]
        for setting in settings:
            words += ["--set", setting]
        number = len(os.listdir(self.folder))
        whole, other = one or f"{name}-one-{number}", f"{name}-grid-{number}"
        for run, own, n in ((whole, alone, 0), (other, [f"run.grid={grid}", *shared], ranks)):
            if run != one:
                self.mrmf(*words, *(word for s in (f"run.folder={run}", *own) for word in ("--set", s)), ranks=n)
        self.same(other, whole, **compared)
        return whole

    def test_outputs_with_positions(self):
        x = np.random.default_rng(1).normal(0, 1, (24, 12, 10, 2)).astype(np.float32)
        y = x[..., :1] * 2 - np.roll(x[..., 1:], 1, axis=1)
        for norm, grid in (('"batch_norm"', [2, 2]), ('"group_norm"\ngroups = 2', [1, 2])):
            self.field_runs("fields", "training.metric=r2", ranks=math.prod(grid), grid=grid, x=x, y=y,
                            training='loss = "mse"',
                            middle=f'[[model.layers]]\ntype = {norm}\n[[model.layers]]\ntype = "dropout"\nrate = 0.1')
        self.field_runs("list", "training.metric=r2", ranks=2, grid=[2, 1], x=x, y=y.reshape(24, -1),
                        training='loss = "mse"')

    # Slabs of the first axis are received in place, those of the second are not; of thirteen rows blocks are uneven.
    def test_one_sample_at_a_time(self):
        x = np.random.default_rng(1).normal(0, 1, (16, 13, 10, 2)).astype(np.float32)
        y = x[..., :1] * 2 - np.roll(x[..., 1:], 1, axis=1)
        middle = support.layers("batch_norm", "leaky_relu", "conv filters=6 kernel=[5,3] padding=\"same\"", "tanh",
                                "conv filters=4 kernel=[2,2] dilation=[2,1] padding=\"same\"", "relu")
        one = None
        for ranks, grid in ((2, [2, 1]), (3, [3, 1]), (2, [1, 2])):
            one = self.field_runs("fields", "training.batch=1", ranks=ranks, grid=grid, x=x, y=y, training='loss = "mse"',
                                  middle=middle, one=one)

    def test_classes_of_positions(self):
        rng = np.random.default_rng(3)
        x = rng.normal(0, 1, (24, 12, 10, 1)).astype(np.float32)
        marks = (x[..., 0] > 0).astype(np.uint8) + (x[..., 0] > 1).astype(np.uint8)
        marks[::2, :5] = 7  # ignored, in the first block of some samples alone
        marks[3] = 7        # a sample without any label
        settings = ["training.ignore=7", "training.classes=3"]
        self.field_runs("marks", *settings, "training.metric=accuracy", ranks=3, grid=[3, 1], x=x, y=marks, outputs=3,
                        training='loss = "cross_entropy"')
        self.field_runs("marks", *settings, "training.metric=dice", "training.loss=[{kind = \"cross_entropy\"}, {kind = \"dice\", weight = 0.5}]",
                        "training.class_weights=[1.0, 2.0, 0.5]", ranks=2, grid=[2, 1], outputs=3)
        self.field_runs("marks", *settings, "training.metric=iou", "training.loss=dice", ranks=2, grid=[1, 2], outputs=3)
        # At a lower resolution, labels are shares of classes.
        self.field_runs("marks", *settings, "training.loss=dice", "method.resolutions=[[2, 2], [1, 1]]",
                        "method.name=progressive", ranks=2, grid=[2, 1], outputs=3)
        yes = (x > 0).astype(np.uint8)
        self.field_runs("yes", "training.loss=[\"binary_cross_entropy\", \"dice\"]", ranks=2, grid=[2, 1], x=x, y=yes)

    def test_what_does_not_go(self):
        def refused(message, *settings, ranks):
            self.fails(2, *words("no", *settings), message=message, ranks=ranks)
            self.assertFalse(os.path.exists(self.path("no/result.json")))
        refused("run.grid = [2] shares each sample among 2 ranks, and there are 3; start a multiple of 2", "run.grid=[2]",
                ranks=3)
        refused("run.grid = [2] shares each sample among 2 ranks, and there is 1; start a multiple of 2", "run.grid=[2]",
                ranks=0)
        refused("run.grid does not go with run.deterministic", "run.grid=[2]", "run.deterministic=true", ranks=2)
        self.config(replace=[support.MRMF_METHOD])
        refused('run.grid does not go with method.teams = "concurrent"', "run.grid=[2]", 'method.teams="concurrent"',
                ranks=2)
        refused("run.grid = [3] shares each sample among 3 ranks, and there are 2", "run.grid=[[1], [2], [3]]", ranks=2)
        refused("run.grid has 2 grids and method.resolutions 3 entries; give one grid for all of them, or one for each",
                "run.grid=[[1], [2]]", ranks=0)
        refused('run.grid has 2 grids, and method.name = "auto" chooses the resolutions', "run.grid=[[1], [2]]",
                "method={name = \"auto\"}", ranks=0)

    def test_a_grid_that_some_axis_is_too_short_for(self):
        support.make_data(self.path("data.h5"), train=48, validation=17, length=56)
        self.config(replace=[('name = "baseline"', 'name = "mrmf"\nresolutions = [[8], [1]]')])
        words = [word for setting in (*SETTINGS, "run.folder=no") for word in ("--set", setting)]
        self.fails(2, "train", "config.toml", *words, "--set", "run.grid=[8]", ranks=8,
                   message="resolution [8]: run.grid = [8] cuts the 7 positions of axis 0 into 8 blocks (samples are 7x3); "
                           "the largest grid that works is [7]; each resolution may have a grid of its own")
        with h5py.File(self.path("deep.h5"), "w") as file:
            file["x"], file["y"] = np.zeros((24, 12, 8, 2), np.float32), np.zeros((24, 12, 8, 1), np.float32)
        self.write("deep.toml", FIELDS.format(name="deep", outputs=1, training="", middle="""
[[model.layers]]
name = "narrow"
type = "max_pool"
window = 4
[[model.layers]]
type = "upsample"
factor = 4
"""))
        self.fails(2, "train", "deep.toml", *words[:2], "--set", "run.folder=no", "--set", "run.grid=[4, 1]", ranks=4,
                   message="narrow: run.grid = [4, 1] cuts 3 positions of its output along axis 0 into 4 blocks, and one of "
                           "them would have none; the largest grid that works is [3, 1]")

    def test_ranks_that_read_other_grids(self):
        folders = ("a", "b")
        for folder, grid in zip(folders, ([2], [1])):
            os.mkdir(self.path(folder))
            self.write(f"{folder}/config.toml", self.read("config.toml").replace("threads = 1", f"threads = 1\ngrid = {grid}"))
        apps = [["-n", "1", "--wdir", self.path(folder), support.MRMF, "train", "config.toml"] for folder in folders]
        done = subprocess.run(["mpirun", "--oversubscribe", *apps[0], ":", *apps[1]], capture_output=True, text=True,
                              timeout=300, env=support.environment())
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("run.grid is not the same on all ranks: rank 0 has [2]; start all ranks with one", done.stderr)

    def test_the_speed_of_reading_blocks(self):
        lines = self.mrmf("bench", "io", "config.toml", "--set", "run.grid=[2]", ranks=4).splitlines()
        figures = json.loads(next(line for line in lines if line.startswith("{")))
        # A kernel of 4 has its last window of the first block on positions 30 to 33.
        self.assertEqual(figures["sample_bytes"], 48 * (34 + 33) * 3 * 4)
        self.assertTrue(any("run.grid = [2]: with the positions beside the blocks, 4.7 % more are read" in line
                            for line in lines), lines)


if __name__ == "__main__":
    support.main()
