"""Bad input: one clear line that says what, where and what to do; the right exit code; nothing half-written."""
import os

import h5py
import numpy as np

import support


class BadInput(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"))
        self.config()

    def refused(self, code, *sets, message, **options):
        words = [word for one in sets for word in ("--set", one)]
        self.fails(code, "train", "config.toml", *words, message=message, **options)
        self.assertFalse(os.path.exists(self.path("run")), "a run folder was left behind")

    # --- what is allowed and rarely meant: a warning

    def images(self):
        """Samples of (64, 48): images without an axis of channels, which are taken for series of 48 channels."""
        support.make_data(self.path("data.h5"), length=64, channels=48)

    def test_validation_on_training_samples_is_warned_of(self):
        sets = ["--set", "data.validation.samples=train_frames", "--set", "data.validation.labels=train_unitStar_par"]
        self.refused(3, "data.validation.samples=train_frames", "data.validation.labels=train_unitStar_par",
                     message="rows 0 to 95 of 'train_frames' in data.h5 validate, and are trained on as rows 0 to 95")
        sets += ["--set", "data.duplicates=allow"]
        said = "the validation samples ('train_frames' in data.h5) are training samples too"
        self.assertIn("warning: " + said, self.mrmf("train", "config.toml", "--set", "training.epochs=1", *sets))
        self.assertIn("warning: " + said, self.read("run/log.txt"))
        for command in ("plan", "inspect"):
            self.assertIn("warning: " + said, self.mrmf(command, "config.toml", *sets))
            self.assertNotIn("warning", self.mrmf(command, "config.toml"))

    def test_an_image_without_channels_is_warned_of(self):
        self.images()
        said = 'if there is no axis of channels, set data.axes = "n y x"'
        self.assertIn(said, self.mrmf("inspect", "config.toml"))
        self.assertNotIn("warning", self.mrmf("inspect", "config.toml", "--set", "data.channels=48"))
        # A run that is refused afterwards has said it too.
        done = self.fails(2, "train", "config.toml", "--set", "model.layers[0].kernel=[3,3]", message="for more axes than its input")
        self.assertIn(said, done)

    def test_the_number_of_channels_can_be_asked_for(self):
        self.images()
        self.refused(2, "data.channels=1", message='set data.axes = "n y x"')

    # --- usage and configuration: exit code 2

    def test_a_patience_without_a_threshold(self):
        self.refused(2, "method.stop.finetune.patience=5", message="method.stop.finetune.threshold, which is not set")

    def test_runs_of_earlier_versions_with_a_patience_alone_are_still_evaluated(self):
        self.mrmf("train", "config.toml", "--set", "training.epochs=1")
        text = self.read("run/config.toml")
        self.write("run/config.toml", text.replace("[run]", "stop.finetune.patience = 5\n\n[run]"))
        self.assertIn("R^2", self.mrmf("evaluate", "run"))

    def test_usage(self):
        self.fails(2, message="A subcommand is required")
        self.fails(2, "trian", message="trian")
        self.fails(2, "train", "config.toml", "--bathc", "3", message="--bathc")
        self.fails(2, "train", "nowhere.toml", message="nowhere.toml")
        self.fails(2, "export", "run", message="--output is required (see mrmf export --help)")
        self.fails(2, "bench", "scaling", message="config is required (see mrmf bench scaling --help)")
        self.assertEqual(self.mrmf("help", "bench", "scaling"), self.mrmf("bench", "scaling", "--help"))
        self.assertEqual(self.mrmf("help"), self.mrmf("--help"))
        self.fails(2, "help", "trian", message="there is no subcommand 'trian'; did you mean 'train'?")

    def test_data_in_the_place_of_a_configuration(self):
        with h5py.File(self.path("large.h5"), "w") as file:
            file["x"] = np.zeros(1 << 19)
        for name in ("data.h5", "large.h5"):
            for command in ("train", "plan", "data"):
                self.fails(2, command, name, message=f"{name}: is an HDF5 file, not a configuration; `mrmf init {name}` "
                           "writes one for its data")

    def test_unknown_key_names_line_and_nearest_key(self):
        self.config(replace=[("batch = 16", "bacth = 16")])
        self.refused(2, message="config.toml:9: unknown key 'training.bacth'; did you mean 'training.batch'?")

    def test_overrides_are_checked_too(self):
        self.refused(2, "training.bacth=3", message="did you mean 'training.batch'?")
        self.refused(2, "training.batch=many", message="training.batch")

    def test_impossible_resolutions(self):
        self.refused(2, "method.name=mrt", "method.resolutions=[[3],[1]]", message="resolution 3 does not divide")
        self.refused(2, "method.name=mrt", "method.resolutions=[[32],[1]]", message="conv1")
        self.refused(2, "method.name=mrt", "method.resolutions=[[1],[2]]", message="method.resolutions")

    def test_resolutions_with_another_number_of_axes_than_the_data(self):
        self.refused(2, "method.name=mrt", "method.resolutions=[[2,2],[1,1]]", message="give a factor per axis")

    def test_batch_larger_than_the_shard(self):
        self.refused(2, "training.batch=97", message="97")
        self.refused(2, "training.batch=33", message="33", ranks=3)

    def test_impossible_fusions_are_refused_before_training(self):
        self.refused(2, "method.name=mrt", "method.resolutions=[[2],[1]]", "model.cut=dense2", message="batch_norm")

    def test_batch_of_one_on_uneven_shards(self):
        support.make_data(self.path("data.h5"), train=97)
        self.refused(2, "training.batch=1", message="use a batch of at least 2", ranks=2)

    def test_a_bad_rerun_leaves_the_finished_run(self):
        self.mrmf("train", "config.toml", "--set", "training.epochs=1")
        before = {name: self.read("run/" + name) for name in ("result.json", "epochs.jsonl", "config.toml")}
        with h5py.File(self.path("data.h5"), "a") as file:
            file["val_frames"][3, 5, 1] = np.inf
        self.fails(3, "train", "config.toml", "--overwrite", message="val_frames")
        for name, text in before.items():
            self.assertEqual(self.read("run/" + name), text)

    def test_wrong_number_of_outputs(self):
        self.config(replace=[("units = 2", "units = 3")])
        self.refused(2, message="the model has 3 outputs and the data 2 labels")

    def test_unwritable_run_folder(self):
        self.write("file", "")
        self.fails(3, "train", "config.toml", "--set", "run.folder=file/run", message="file/run")

    def test_folders_that_only_a_shell_would_find(self):
        for folder, advice in (("~/runs", "~ is the home folder in a shell alone"), ("$HOME/runs", "variables are replaced by a shell alone; write "),
                               ("s3://bucket/run", "outputs go to folders of this machine")):
            self.fails(2, "plan", "config.toml", "--set", f'run.folder="{folder}"', message=f'run.folder = "{folder}": {advice}')

    def test_a_refused_run_leaves_no_folder_it_made(self):
        os.mkdir(self.path("empty"))
        with h5py.File(self.path("data.h5"), "a") as file:
            file["val_frames"][3, 5, 1] = np.nan
        before = sorted(os.listdir(self.folder))
        for folder in ("new/deep/run", "empty"):
            self.fails(3, "train", "config.toml", "--set", f"run.folder={folder}", message="val_frames")
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        self.assertEqual(os.listdir(self.path("empty")), [])

    def test_device_that_is_not_there(self):
        self.refused(2, "run.device=cuda", message='run.device = "cuda"')

    # --- data: exit code 3

    def test_missing_file(self):
        os.remove(self.path("data.h5"))
        self.refused(3, message="data.h5")

    def test_not_hdf5(self):
        self.write("data.h5", "these are not the numbers you are looking for\n" * 100)
        self.refused(3, message="not an HDF5 file")

    def test_truncated(self):
        with open(self.path("data.h5"), "r+b") as file:
            file.truncate(os.path.getsize(self.path("data.h5")) // 2)
        self.refused(3, message="truncated")

    def test_missing_data_set_names_those_there_are(self):
        self.config(replace=[('"train_frames"', '"train_frame"')])
        self.refused(3, message="train_frames")

    def change(self, name, values):
        with h5py.File(self.path("data.h5"), "a") as file:
            del file[name]
            if values is not None:
                file[name] = values

    def test_wrong_dtype(self):
        self.change("train_frames", np.zeros((96, 64, 3), "S3"))
        self.refused(3, message="train_frames")

    def test_labels_and_samples_of_different_length(self):
        self.change("train_unitStar_par", np.zeros((95, 2), "float32"))
        self.refused(3, message="95")

    def test_empty_split(self):
        self.change("val_frames", np.zeros((0, 64, 3), "float32"))
        self.change("val_unitStar_par", np.zeros((0, 2), "float32"))
        self.refused(3, message="val_frames")

    def test_training_and_validation_differ(self):
        self.change("val_frames", np.zeros((40, 60, 3), "float32"))
        self.refused(3, message="60x3")

    def test_nan_names_file_data_set_and_row(self):
        with h5py.File(self.path("data.h5"), "a") as file:
            file["train_frames"][77, 5, 1] = np.nan
        for ranks in (0, 3):
            output = self.mrmf("train", "config.toml", code=3, ranks=ranks)
            for part in ("data.h5", "train_frames", "77"):
                self.assertIn(part, output)

    # --- faults: exit code 4

    def test_ranks_that_read_different_configurations(self):
        self.write("other.toml", self.read("config.toml").replace("seed = 3", "seed = 4"))
        self.fails(2, "train", "config.toml", ":", "-n", "1", support.MRMF, "train", "other.toml", ranks=1,
                   message="the ranks were started with different commands")
        self.assertFalse(os.path.exists(self.path("run")))

    def test_nan_loss_names_stage_epoch_and_step(self):
        for ranks in (0, 2):
            self.fails(4, "train", "config.toml", "--set", "training.optimizer.name=sgd", "--set",
                       "training.optimizer.learning_rate=1e30", "--set", f"run.folder=r{ranks}",
                       message="in stage 1 (baseline, resolution [1]), epoch 1, step", ranks=ranks)
            self.assertFalse(os.path.exists(self.path(f"r{ranks}/result.json")))


if __name__ == "__main__":
    support.main()
