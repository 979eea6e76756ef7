"""Training through the command line: methods, run folders, reproducibility, ranks."""
import json
import os
import unittest

import h5py
import numpy as np

import support

SGD = ["--set", "training.optimizer.name=sgd", "--set", "training.optimizer.learning_rate=0.02"]


class Train(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"))

    def test_baseline_learns_and_leaves_a_complete_run_folder(self):
        self.config(replace=[("epochs = 3", "epochs = 30")])
        output = self.mrmf("train", "config.toml")
        epochs = self.lines("run/epochs.jsonl")
        self.assertEqual(len(epochs), 30)
        self.assertLess(epochs[-1]["validation_loss"], 0.5 * epochs[0]["validation_loss"])
        self.assertEqual(set(epochs[0]), {
            "stage", "role", "resolution", "epoch", "samples", "train_loss", "validation_loss", "seconds", "io_seconds",
            "io_range", "compute_seconds", "compute_range", "communication_seconds", "communication_range",
            "hidden_seconds", "averaging_seconds", "gflop", "learning_rate", "batch", "ranks", "total_seconds"})
        for name in ("config.toml", "plan.json", "stages.jsonl", "result.json", "log.txt", "checkpoints/final.h5"):
            self.assertTrue(os.path.exists(self.path("run/" + name)), name)
        result = json.loads(self.read("run/result.json"))
        self.assertEqual(result["method"], "baseline")
        self.assertAlmostEqual(result["validation_loss"], epochs[-1]["validation_loss"])
        self.assertIn("git", result["versions"])
        self.assertNotIn("\r", output)  # no live line when the output is not a terminal

    def test_parts_of_the_time_add_up(self):
        self.config()
        for _ in range(10):
            self.mrmf("train", "config.toml", "--overwrite")
            epochs = self.lines("run/epochs.jsonl")
            # What passes between the run's start and its first trainer is in no epoch: microseconds, more if descheduled.
            outside = epochs[0]["total_seconds"] - epochs[0]["seconds"]
            self.assertGreater(outside, -1e-6)
            if outside < 0.5 * epochs[-1]["total_seconds"]:
                break
        else:
            self.fail(f"ten times most of the time was in no epoch: {epochs}")
        for epoch in epochs:
            parts = epoch["io_seconds"] + epoch["compute_seconds"] + epoch["communication_seconds"]
            self.assertLessEqual(parts, epoch["seconds"] + 1e-6)
            self.assertGreater(epoch["compute_seconds"], 0)
            self.assertGreater(epoch["io_seconds"], 0)
        # After that, all seconds are an epoch's.
        for before, epoch in zip(epochs, epochs[1:]):
            self.assertAlmostEqual(before["total_seconds"] + epoch["seconds"], epoch["total_seconds"], places=6)

    def test_every_method_runs_its_plan(self):
        expected = {
            "mrt": ["coarse", "finetune"],
            "mrmf": ["coarse", "dense", "finetune"],
            "progressive": ["coarse", "finetune"],
        }
        for method, roles in expected.items():
            with self.subTest(method):
                self.config(replace=[('name = "baseline"', f'name = "{method}"\nresolutions = [[2], [1]]')])
                self.mrmf("train", "config.toml", "--set", f"run.folder={method}", "--set", "training.epochs=2")
                stages = self.lines(method + "/stages.jsonl")
                self.assertEqual([stage["role"] for stage in stages], roles)
                self.assertEqual([stage["epochs"] for stage in stages], [2] * len(roles))

    def test_two_fusions_follow_figure_2(self):
        self.config(replace=[support.MRMF_METHOD])
        plan = self.mrmf("plan", "config.toml")
        self.assertIn("plan: mrmf, 2 fusions", plan)
        self.mrmf("train", "config.toml")
        stages = self.lines("run/stages.jsonl")
        self.assertEqual([(s["stage"], s["role"], s["resolution"][-1], s["epochs"]) for s in stages],
                         [(1, "coarse", 4, 2), (1, "dense", 2, 1), (2, "coarse", 2, 2), (2, "dense", 1, 1),
                          (3, "finetune", 1, 2)])

    def test_interpolated_top_trains_no_dense_model(self):
        self.config(replace=[support.MRMF_METHOD])
        self.mrmf("train", "config.toml", "--set", "method.top=interpolated")
        self.assertEqual([s["role"] for s in self.lines("run/stages.jsonl")], ["coarse", "coarse", "finetune"])

    def test_target_ends_the_run(self):
        self.config(replace=[("epochs = 3", "epochs = 50"),
                             ('name = "baseline"', 'name = "baseline"\ntarget = { validation_loss = 0.2 }')])
        self.mrmf("train", "config.toml")
        epochs = self.lines("run/epochs.jsonl")
        self.assertLess(len(epochs), 50)
        self.assertLessEqual(epochs[-1]["validation_loss"], 0.2)
        self.assertGreater(epochs[-2]["validation_loss"], 0.2)
        self.assertTrue(json.loads(self.read("run/result.json"))["target_reached"])

    def test_same_seed_same_losses_other_seed_others(self):
        self.config(replace=[support.MRMF_METHOD])
        losses = []
        for run, seed in (("a", 1), ("b", 1), ("c", 2)):
            self.mrmf("train", "config.toml", "--set", f"run.folder={run}", "--set", f"training.seed={seed}")
            losses.append([e["validation_loss"] for e in self.lines(run + "/epochs.jsonl")])
        self.assertEqual(losses[0], losses[1])
        self.assertNotEqual(losses[0], losses[2])

    def test_ranks_do_not_change_the_losses(self):
        # Same global mini-batches (12 shards), same dropout masks, batch norm over the global batch: what is left is
        # the order of float32 sums. With SGD that stays at 2e-7; Adam divides gradients that are all rounding by their
        # own size, so there it grows to 1e-2. docs/numerics.md, "Ranks".
        self.config(replace=[("layout = ", "shards = 12\nlayout = "), support.MRMF_METHOD])
        for optimizer, tolerance in ((SGD, 5e-6), ([], 5e-2)):
            losses = {}
            for ranks in (1, 2, 3, 4):
                output = self.mrmf("train", "config.toml", "--overwrite", "--set", f"run.folder=r{ranks}", "--set",
                                   f"training.batch={24 // ranks}", *optimizer, ranks=ranks)
                self.assertNotIn("\r", output.replace("\r\n", "\n"))  # no live line in a file, under mpirun either
                epochs = self.lines(f"r{ranks}/epochs.jsonl")
                self.assertTrue(all(e["ranks"] == ranks for e in epochs))
                losses[ranks] = np.array([[e["train_loss"], e["validation_loss"]] for e in epochs])
            for ranks in (2, 3, 4):
                np.testing.assert_allclose(losses[ranks], losses[1], rtol=tolerance)

    def test_uneven_shards_count_every_sample_once(self):
        support.make_data(self.path("data.h5"), train=97, validation=41)
        self.config()
        for ranks in (1, 3, 5):
            self.mrmf("train", "config.toml", "--set", f"run.folder=r{ranks}", "--set", "training.batch=8", ranks=ranks)
            self.assertEqual(self.lines(f"r{ranks}/epochs.jsonl")[0]["samples"], 97)

    def test_local_batch_norm_trains_a_fusion_on_two_ranks(self):
        # Running statistics are each rank's own there, and their mean is what is validated, fused and saved.
        self.config(replace=[support.MRMF_METHOD, ("batch = 16", 'batch = 8\nbatch_norm = "local"')])
        self.mrmf("train", "config.toml", ranks=2)
        self.check_ranges(self.lines("run/epochs.jsonl"))
        loss = json.loads(self.read("run/result.json"))["validation_loss"]
        output = self.mrmf("evaluate", "run")
        mean = [line.split() for line in output.splitlines() if line.strip().startswith("mean")][0]
        self.assertAlmostEqual(float(mean[1]), loss, places=5)

    def check_ranges(self, epochs):
        """Each part of an epoch's time: the mean over two ranks, the least and the most, which hardly ever are equal."""
        for part in ("io", "compute", "communication"):
            for epoch in epochs:
                least, most = epoch[part + "_range"]
                self.assertTrue(0 <= least <= epoch[part + "_seconds"] <= most, epoch)
            self.assertTrue(any(epoch[part + "_range"][0] < epoch[part + "_range"][1] for epoch in epochs), part)

    def test_fewer_validation_samples_than_ranks(self):
        support.make_data(self.path("data.h5"), validation=2)
        self.config()
        losses = []
        for ranks in (1, 4):
            self.mrmf("train", "config.toml", "--set", f"run.folder=r{ranks}", "--set", "data.shards=4", "--set",
                      f"training.batch={16 // ranks}", *SGD, ranks=ranks)
            losses.append([e["validation_loss"] for e in self.lines(f"r{ranks}/epochs.jsonl")])
        np.testing.assert_allclose(losses[1], losses[0], rtol=5e-6)

    def test_reference_backend_agrees_with_onednn(self):
        self.config()
        losses = []
        for backend in ("onednn", "reference"):
            self.mrmf("train", "config.toml", "--set", f"run.backend={backend}", "--set", f"run.folder={backend}", *SGD)
            losses.append([e["validation_loss"] for e in self.lines(backend + "/epochs.jsonl")])
        np.testing.assert_allclose(losses[0], losses[1], rtol=5e-6)  # as for ranks: float32 sums in another order

    def test_data_types_and_layouts_are_read(self):
        self.config()
        reference = None
        for dtype in ("float32", "float64", "float16"):
            support.make_data(self.path("data.h5"), dtype=dtype)
            self.mrmf("train", "config.toml", "--set", f"run.folder={dtype}")
            losses = [e["validation_loss"] for e in self.lines(dtype + "/epochs.jsonl")]
            reference = reference or losses
            np.testing.assert_allclose(losses, reference, rtol=2e-2)  # float16 keeps three digits of the samples
        self.mrmf("train", "config.toml", "--set", "run.folder=re", "--set", "data.layout=reinterpret")
        self.assertNotEqual([e["validation_loss"] for e in self.lines("re/epochs.jsonl")], reference)

    def test_a_finished_run_is_not_overwritten_by_accident(self):
        self.config()
        self.mrmf("train", "config.toml")
        before = self.read("run/result.json")
        self.fails(2, "train", "config.toml", message="--overwrite")
        self.assertEqual(self.read("run/result.json"), before)
        self.mrmf("train", "config.toml", "--overwrite")

    def test_evaluate_and_predict_agree_with_the_run(self):
        self.config(replace=[("epochs = 3", "epochs = 10")])
        self.mrmf("train", "config.toml")
        loss = json.loads(self.read("run/result.json"))["validation_loss"]
        for ranks in (0, 3):
            output = self.mrmf("evaluate", "run", ranks=ranks)
            mean = [line.split() for line in output.splitlines() if line.strip().startswith("mean")][0]
            self.assertAlmostEqual(float(mean[1]), loss, places=5)
            self.mrmf("predict", "run", "--overwrite", "-o", "out.h5", ranks=ranks)
            with h5py.File(self.path("out.h5")) as out, h5py.File(self.path("data.h5")) as data:
                error = out["prediction"][:] - data["val_unitStar_par"][:]
                self.assertAlmostEqual(float(np.mean(error**2)), loss, places=6)


if __name__ == "__main__":
    support.main()
