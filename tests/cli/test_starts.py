"""model.start, and more epochs on a run that is done."""
import json
import os
import unittest

import h5py
import numpy as np
import support


class Starts(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"))
        self.config()

    def train(self, folder, *more, **options):
        return self.mrmf("train", "config.toml", "--set", f"run.folder={folder}", *more, **options)

    def result(self, run):
        return json.loads(self.read(run + "/result.json"))

    def more(self, folder, epochs, *words, **options):
        return self.mrmf("train", "--continue", folder, "--set", f"training.epochs={epochs}", *words, **options)


class MoreEpochs(Starts):
    def test_four_and_two_are_six(self):
        for words in ((), ("--set", "training.optimizer.name=sgd"), ("--set", "training.optimizer.rule=plateau"),
                      ("--set", "training.early_stopping.patience=5")):
            six = self.train("six", "--set", "training.epochs=6", *words, "--overwrite")
            self.train("run", "--set", "training.epochs=4", *words, "--overwrite")
            output = self.more("run", 6)
            self.assertIn("continues in stage 1 (baseline, resolution [1]), after 4 epochs", output)
            self.assertIn("continues until 6 epochs are done", output)
            self.same_models("run", "six")
            losses = [[e["train_loss"] for e in self.lines(run + "/epochs.jsonl")] for run in ("run", "six")]
            self.assertEqual(*losses)
            self.assertEqual([s["epochs"] for s in self.lines("run/stages.jsonl")], [6])
            for key in ("best", "validation_loss"):
                self.assertEqual(self.result("run")[key], self.result("six")[key])
            self.assertIn("epochs = 6", self.read("run/config.toml"))
        self.assertIn("final validation loss", six)

    def test_a_checkpoint_of_an_earlier_version_is_found_by_its_former_name(self):
        self.train("run", "--set", "training.epochs=2")
        os.rename(self.path("run/checkpoints/phase-1.h5"), self.path("run/checkpoints/step-1.h5"))
        self.assertIn("after 2 epochs", self.more("run", 3))
        self.assertEqual(sorted(os.listdir(self.path("run/checkpoints"))), ["final.h5", "step-1.h5"])

    def test_only_the_last_phase_of_a_plan_goes_on(self):
        self.config(replace=[support.MRMF_METHOD])
        self.train("run")
        self.train("long", "--set", "method.stop.finetune.epochs=4")
        self.more("run", 4)
        self.same_models("run", "long")
        self.assertEqual([s["epochs"] for s in self.result("run")["stages"]],
                         [s["epochs"] for s in self.result("long")["stages"]])
        self.assertEqual(self.read("run/config.toml").replace('folder = "run"', 'folder = "long"'),
                         self.read("long/config.toml"))
        self.mrmf("train", "--continue", "run", "--set", "method.stop.finetune.epochs=5")
        self.assertEqual(self.result("run")["stages"][-1]["epochs"], 5)

    def test_a_run_that_goes_on_as_it_was_stays_the_run_of_its_command(self):
        self.config(replace=[support.MRMF_METHOD])
        self.train("run", "--set", "training.epochs=4")
        kept = self.read("run/config.toml")
        os.remove(self.path("run/result.json"))
        self.mrmf("train", "--continue", "run")
        self.assertEqual(self.read("run/config.toml"), kept)
        # As many epochs as training.epochs says, which is not what the last phase has.
        self.more("run", 4)
        self.assertEqual(self.result("run")["stages"][-1]["epochs"], 4)
        self.assertIn("continue for more epochs: mrmf train --continue run --set training.epochs=...",
                      self.fails(2, "train", "config.toml", message="run.folder: run holds a finished run"))

    def test_phases_of_one_number_of_epochs_keep_it_in_training(self):
        self.config(replace=[(support.MRMF_METHOD[0], 'name = "mrmf"\nresolutions = [[2], [1]]')])
        command = ("--set", "training.epochs=2")
        self.train("run", *command)
        kept = self.read("run/config.toml")
        os.remove(self.path("run/result.json"))
        self.mrmf("train", "--continue", "run")
        self.assertEqual(self.read("run/config.toml"), kept)
        os.remove(self.path("run/result.json"))
        self.assertIn("continues after stage 2", self.train("run", *command))

    def test_a_curve_goes_on_along_its_new_length(self):
        self.train("run", "--set", "training.optimizer.rule=cosine", "--set", "training.epochs=4")
        self.train("six", "--set", "training.optimizer.rule=cosine", "--set", "training.epochs=6")
        self.assertIn("its cosine rate continues along the curve of that length", self.more("run", 6))
        rates = [[e["learning_rate"] for e in self.lines(run + "/epochs.jsonl")] for run in ("run", "six")]
        self.assertEqual(rates[0][4:], rates[1][4:])
        self.assertNotEqual(rates[0][:4], rates[1][:4])

    def test_ranks_and_local_statistics(self):
        words = ("--set", "training.batch_norm=local", "--set", "training.batch=8")
        self.train("run", *words, ranks=2)
        self.train("five", *words, "--set", "training.epochs=5", ranks=2)
        self.more("run", 5, ranks=2)
        self.same_models("run", "five")

    def test_it_survives_a_kill_and_keeps_the_model_until_it_is_done(self):
        self.train("run")
        before = self.model_arrays("run/checkpoints/final.h5")
        # What a kill leaves before the first checkpoint of the new epochs, and after it.
        process = self.launch("train", "--continue", "run", "--set", "training.epochs=400")
        support.wait_while(process, lambda: self.epochs_written() < 4)
        process.kill()
        process.communicate()
        self.assertFalse(os.path.exists(self.path("run/result.json")))
        for name, values in self.model_arrays("run/checkpoints/final.h5").items():
            np.testing.assert_array_equal(values, before[name])
        self.assertIn("epoch 3 of 3", self.mrmf("evaluate", "run", "--epoch", "last"))
        self.fails(2, "train", "--continue", "run", "--set", "training.epochs=5", message="has 400 epochs, and 5 are fewer")
        before = self.read("run/epochs.jsonl").count("\n")
        process = self.launch("train", "--continue", "run", "--set", "run.checkpoint.epochs=1")
        support.wait_while(process, lambda: self.epochs_written() < before + 3)
        process.terminate()
        process.communicate()
        self.assertEqual(process.returncode, 75)
        self.assertIn("the baseline model of stage 1", self.mrmf("evaluate", "run", "--checkpoint"))

    def test_what_is_refused(self):
        self.train("run", "--set", "training.epochs=2")
        self.fails(2, "train", "--continue", "run", message="the run is done; for more than its 2 epochs give --set")
        self.fails(2, "train", "--continue", "run", "--set", "training.epochs=1", message="has 2 epochs, and 1 are fewer")
        self.fails(2, "train", "--continue", "nowhere", message="is no run's folder: there is no nowhere/config.toml")
        self.fails(2, "train", message="name a configuration file, or a run's folder with --continue")
        self.fails(2, "train", "config.toml", "--continue", "run", message="and not both")
        self.fails(2, "train", "--continue", "run", "--overwrite", message="keep one")
        self.fails(2, "train", "--continue", "run", "--set", "run.folder=other", message="leave --set run.folder out")
        self.fails(2, "train", "--continue", "run", "--set", "training.epochs=4", "--set", "training.batch=8",
                   message="run.folder: run holds a run where training.batch is 16, and here it is 8; set it back, or begin a "
                           'new run with model.start = "run" in another folder')
        self.assertTrue(os.path.exists(self.path("run/result.json")))
        self.train("target", "--set", "method.target.validation_loss=1000")
        self.fails(2, "train", "--continue", "target", "--set", "training.epochs=9",
                   message="was ended after 1 epoch by \"target\"")
        self.assertTrue(os.path.exists(self.path("target/result.json")))
        os.remove(self.path("run/checkpoints/phase-1.h5"))
        self.fails(2, "train", "--continue", "run", "--set", "training.epochs=4",
                   message="there is no checkpoint of the run's end")
        self.assertTrue(os.path.exists(self.path("run/result.json")))


class ModelStart(Starts):
    def test_all_layers_are_taken(self):
        self.train("first")
        frozen = ("--set", "training.optimizer.learning_rate=1e-30", "--set", "training.epochs=1")
        output = self.train("second", *frozen, "--set", "model.start=first")
        self.assertRegex(output, r"start: all 4 layers from first/checkpoints/(best|final)\.h5 \(epoch \d of \d\)\n")
        self.assertNotIn("start: new", output)
        first, second = (self.model_arrays(run + "/checkpoints/final.h5") for run in ("first", "second"))
        for name in first:
            if name.startswith("parameters/"):
                np.testing.assert_array_equal(first[name], second[name], err_msg=name)
        # On several ranks, and from a file.
        self.train("third", *frozen, "--set", "model.start=first/checkpoints/final.h5", "--set", "training.batch=8",
                   ranks=2)
        np.testing.assert_array_equal(self.model_arrays("third/checkpoints/final.h5")["parameters/conv1/weight"],
                                      first["parameters/conv1/weight"])

    def test_state_comes_along(self):
        self.train("first")
        start = ("--set", "model.start=first", "--set", "training.optimizer.learning_rate=1e-30", "--set",
                 "training.epochs=1")
        self.train("one", *start)
        self.config(replace=[('type = "batch_norm"', 'type = "batch_norm"\nmomentum = 1e-6')])
        self.train("still", *start)
        first, still = (self.model_arrays(run + "/checkpoints/final.h5")["state/batch_norm1/running_variance"]
                        for run in ("first", "still"))
        np.testing.assert_allclose(still, first, rtol=1e-3)

    def test_statistics_of_several_ranks_are_averaged(self):
        self.train("first", "--set", "training.batch_norm=local", "--set", "training.batch=8", ranks=2)
        with h5py.File(self.path("first/checkpoints/phase-1.h5")) as kept, h5py.File(self.path("start.h5"), "w") as start:
            for name in ("parameters", "state"):
                kept.copy(name, start)
            start.attrs.update(kept.attrs)
            means = start["state/batch_norm1/running_mean"]
            means[...] = means[...] + np.array([[1], [3]], "float32")
            self.assertEqual(len(means), 2)
            wanted = means[...].mean(axis=0)
        self.config(replace=[('type = "batch_norm"', 'type = "batch_norm"\nmomentum = 1e-6')])
        output = self.train("second", "--set", "model.start=start.h5", "--set", "training.optimizer.learning_rate=1e-30",
                            "--set", "training.epochs=1")
        self.assertIn("start: all 4 layers from start.h5\n", output)
        np.testing.assert_allclose(self.model_arrays("second/checkpoints/final.h5")["state/batch_norm1/running_mean"], wanted,
                                   atol=1e-3)

    def test_what_does_not_fit_is_new_and_the_log_says_why(self):
        self.train("first")
        self.config(replace=[("units = 8", "units = 5"), ('type = "batch_norm"', 'type = "batch_norm"\nname = "other"')])
        output = self.train("second", "--set", "model.start=first")
        self.assertIn("gives conv1\n", output)
        self.assertRegex(output, r"start: new are other \(not there\), dense1 \(weight is \(8, \d+\) there and "
                                 r"\(5, \d+\) here\), dense2 \(weight is \(2, 8\) there and \(2, 5\) here\)")
        self.assertIn("start: not used of it: batch_norm1", output)

    def test_the_first_model_of_a_plan_and_a_continued_run(self):
        self.train("first")
        self.config(replace=[support.MRMF_METHOD])
        # At [4] the flat layers have other sizes.
        words = ("--set", "model.start=first", "--set", "run.checkpoint.epochs=1")
        output = self.train("run", *words)
        self.assertIn("gives conv1, dense2", output)
        os.remove(self.path("run/result.json"))
        os.rename(self.path("first"), self.path("gone"))
        self.assertNotIn("start:", self.train("run", *words))  # its start may be gone
        self.fails(2, "train", "config.toml", "--set", "run.folder=new", *words,
                   message="model.start: first: there is no such run folder or model file")
        self.assertFalse(os.path.exists(self.path("new")))
        self.fails(2, "plan", "config.toml", "--set", "model.start=gone", "--set", "method.teams=concurrent",
                   message="model.start does not go with method.teams = \"concurrent\"")

    def test_what_is_refused(self):
        self.train("first")
        names = [("type = \"conv\"", "type = \"conv\"\nname = \"a\""),
                 ("type = \"batch_norm\"", "type = \"batch_norm\"\nname = \"b\""), ("units = 8", "units = 8\nname = \"c\""),
                 ("units = 2", "units = 2\nname = \"d\"")]
        self.config(replace=names)
        self.fails(2, "train", "config.toml", "--set", "run.folder=second", "--set", "model.start=first",
                   message="has no layer that fits this model: a (not there), b (not there)")
        self.assertFalse(os.path.exists(self.path("second")))
        self.config()
        self.fails(2, "train", "config.toml", "--set", "run.folder=first", "--set", "model.start=first", "--overwrite",
                   message="lies in run.folder, where this run writes")
        self.assertTrue(os.path.exists(self.path("first/result.json")))
        os.mkdir(self.path("empty"))
        self.fails(2, "train", "config.toml", "--set", "run.folder=second", "--set", "model.start=empty",
                   message="holds no model of a finished run")
        self.fails(3, "train", "config.toml", "--set", "run.folder=second", "--set", "model.start=data.h5",
                   message="data.h5: not a model written by mrmf")
        with open(self.path("first/checkpoints/final.h5"), "r+b") as file:
            file.seek(5000)
            byte = file.read(1)
            file.seek(5000)
            file.write(bytes([byte[0] ^ 1]))
        self.fails(3, "train", "config.toml", "--set", "run.folder=second", "--set", "model.start=first",
                   message="final.h5: damaged or cut short")


if __name__ == "__main__":
    support.main()
