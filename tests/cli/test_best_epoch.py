"""The best epoch's model beside the last one, early stopping by what is monitored, and the coarse model transferred."""
import json
import os

import h5py
import numpy as np
import support

# A rate that is far too high from the fifth epoch on: the fourth is the best.
BEST = 4
SPOILT = ("--set", "training.optimizer.rule=piecewise", "--set", f"training.optimizer.boundaries=[{BEST}]", "--set",
          "training.optimizer.factor=100")
ROUGH = (*SPOILT, "--set", "training.epochs=8")


class BestEpoch(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"))
        self.config()

    def train(self, folder, *more, **options):
        return self.mrmf("train", "config.toml", "--set", f"run.folder={folder}", *more, **options)

    def result(self, run):
        return json.loads(self.read(run + "/result.json"))

    def arrays(self, file):
        found = {}
        with h5py.File(self.path(file)) as model:
            model.visititems(lambda name, item: found.update({name: item[()].tobytes()})
                             if isinstance(item, h5py.Dataset) else None)
        return {name: value for name, value in found.items() if name.startswith(("parameters/", "state/"))}

    def mean_of(self, output):
        """The mean squared error over all labels: the last line of what evaluate prints."""
        return float(output.splitlines()[-1].split()[1])

    def best_of(self, folder):
        losses = [epoch["validation_loss"] for epoch in self.lines(folder + "/epochs.jsonl")]
        return int(np.argmin(losses)) + 1, losses

    def test_the_best_model_is_that_of_its_epoch_and_is_used(self):
        self.train("run", *ROUGH)
        best, losses = self.best_of("run")
        self.assertEqual(best, BEST, losses)
        self.train("short", *SPOILT, "--set", f"training.epochs={best}")
        self.assertEqual(self.arrays("run/checkpoints/best.h5"), self.arrays("short/checkpoints/final.h5"))
        self.assertFalse(os.path.exists(self.path("short/checkpoints/best.h5")))
        self.assertIn("\nthe last epoch was the best\n", self.read("short/log.txt"))
        result = self.result("run")
        self.assertEqual(result["best"]["epoch"], best)
        self.assertEqual(result["best"]["validation_loss"], losses[best - 1])
        self.assertEqual(result["validation_loss"], losses[-1])
        self.assertIn(f"the best model is of epoch {best} of 8, validation {losses[best - 1]:.5f}",
                      self.read("run/log.txt"))
        for words, epoch in (((), best), (("--epoch", "best"), best), (("--epoch", "last"), 8)):
            output = self.mrmf("evaluate", "run", *words)
            self.assertIn(f"epoch {epoch} of 8, validation {losses[epoch - 1]:.5f}", output)
            self.assertAlmostEqual(self.mean_of(output), losses[epoch - 1], delta=1e-5)
            said = self.mrmf("export", "run", "-o", "m.onnx", "--overwrite", *words)
            self.assertEqual(said.splitlines()[0], output.splitlines()[0])
        self.mrmf("predict", "run", "-o", "best.h5")
        self.mrmf("predict", "run", "-o", "last.h5", "--epoch", "last")
        self.assertNotEqual(support.digest(self.path("best.h5")), support.digest(self.path("last.h5")))
        self.fails(2, "evaluate", "run", "--epoch", "best", "--checkpoint", message="--epoch chooses between the models")

    def test_without_the_best_model_the_last_one_is_the_run_s(self):
        self.train("run", *ROUGH, "--set", "training.keep_best=false")
        self.train("kept", *ROUGH)
        self.assertFalse(os.path.exists(self.path("run/checkpoints/best.h5")))
        self.assertEqual(self.arrays("run/checkpoints/final.h5"), self.arrays("kept/checkpoints/final.h5"))
        self.assertNotIn("best", self.result("run"))
        losses = self.best_of("run")[1]
        self.assertAlmostEqual(self.mean_of(self.mrmf("evaluate", "run")), losses[-1], delta=1e-5)
        self.fails(2, "train", "config.toml", "--set", "training.keep_best=false", "--set", "method.transfer=best",
                   message="training.keep_best = false does not keep")

    def test_global_statistics_of_ranks_and_local_ones_mean_what_validation_measured(self):
        for kind in ("global", "local"):
            self.train(kind, *ROUGH, "--set", f"training.batch_norm={kind}", "--set", "training.batch=8", ranks=2)
            best, losses = self.best_of(kind)
            self.assertEqual(best, BEST, losses)
            self.assertAlmostEqual(self.mean_of(self.mrmf("evaluate", kind)), losses[best - 1], delta=1e-5)

    def test_a_killed_run_ends_with_the_same_best_model(self):
        self.train("straight", *ROUGH)
        words = ("train", "config.toml", "--set", "run.folder=run", *ROUGH, "--set", "run.checkpoint.epochs=1")
        for epochs in (3, 5, 7):
            self.kill_after(epochs, *words)
        self.mrmf(*words)
        for name in ("best.h5", "final.h5"):
            self.assertEqual(self.arrays("run/checkpoints/" + name), self.arrays("straight/checkpoints/" + name))
        self.assertEqual(self.result("run")["best"], self.result("straight")["best"])

    def test_early_stopping_ends_a_phase_and_plan_says_so(self):
        early = ("--set", "training.early_stopping.patience=2", "--set", "training.epochs=40")
        self.assertIn("until no better validation loss for 2 epochs, or 40 epochs",
                      self.mrmf("plan", "config.toml", *early))
        self.train("run", *SPOILT, *early)
        best, losses = self.best_of("run")
        self.assertEqual(len(losses), best + 2)
        self.assertEqual(self.lines("run/stages.jsonl")[0]["reason"], "early_stopping")
        self.train("ranks", *SPOILT, *early, "--set", "training.batch=8", "--set", "data.shards=2", ranks=2)
        best, losses = self.best_of("ranks")
        self.assertEqual(len(losses), best + 2)

    def test_early_stopping_is_the_same_after_a_stop(self):
        early = (*SPOILT, "--set", "training.early_stopping.patience=4", "--set", "training.epochs=60", "--set",
                 "run.checkpoint.epochs=1")
        self.train("straight", *early)
        ended = len(self.lines("straight/epochs.jsonl"))
        self.kill_after(ended - 2, "train", "config.toml", "--set", "run.folder=run", *early)
        self.train("run", *early)
        self.assertEqual(len(self.lines("run/epochs.jsonl")), ended)
        self.assertEqual(self.arrays("run/checkpoints/best.h5"), self.arrays("straight/checkpoints/best.h5"))

    def test_the_metric_decides_where_it_is_monitored(self):
        self.train("run", *ROUGH, "--set", "training.metric=r2", "--set", "training.monitor=metric")
        scores = [epoch["validation_r2"] for epoch in self.lines("run/epochs.jsonl")]
        self.assertEqual(self.result("run")["best"]["epoch"], int(np.argmax(scores)) + 1)
        self.fails(2, "plan", "config.toml", "--set", "training.monitor=metric",
                   message="training.monitor = \"metric\" looks at training.metric, which is not set")
        self.fails(2, "plan", "config.toml", "--set", "training.early_stopping.least_change=0.1",
                   message="training.early_stopping.least_change belongs to training.early_stopping.patience")

    def test_the_best_coarse_model_is_handed_over(self):
        replace = [support.MRMF_METHOD, ("[[4], [2], [1]]", "[[2], [1]]"), ("epochs = 2 }, dense", "epochs = 8 }, dense")]
        self.config(replace=replace)
        rough = (*SPOILT, "--set", "method.finetune.rule=constant", "--set", "method.top=interpolated", "--set",
                 "method.stop.finetune.epochs=1")
        self.train("best", *rough, "--set", "method.transfer=best")
        coarse = [e["validation_loss"] for e in self.lines("best/epochs.jsonl") if e["role"] == "coarse"]
        best = int(np.argmin(coarse)) + 1
        self.assertEqual(best, BEST, coarse)
        self.assertIn(f"transfers the model of its best epoch, {best} of 8", self.read("best/log.txt"))
        self.assertIn("bottom from coarse at its best epoch", self.read("best/log.txt"))
        self.train("short", *rough, "--set", f"method.stop.coarse.epochs={best}")
        self.assertEqual(self.arrays("best/checkpoints/final.h5"), self.arrays("short/checkpoints/final.h5"))
        self.train("last", *rough)
        self.assertNotEqual(self.arrays("best/checkpoints/final.h5"), self.arrays("last/checkpoints/final.h5"))
        self.fails(2, "plan", "config.toml", *rough, "--set", "method.transfer=best", "--set", "method.moments=carry",
                   message="method.transfer = \"best\" does not go with method.moments = \"carry\"")


if __name__ == "__main__":
    support.main()
