"""Files and groups of one data set are alike, wherever the one lies that is not."""
import json

import h5py
import numpy as np

import support

NETWORK = ("conv filters=2 kernel=3", "relu", "flatten", "dense units=1")


class Alike(support.MrmfTest):
    def config(self, files, rows="axis"):
        data = f'rows = "{rows}"\ntrain = {{ samples = "x", labels = "y" }}'
        self.write("c.toml", support.rows_config(*NETWORK, files=files, data=data, batch=4))

    def files(self, units):
        names = [f"f{i}.h5" for i in range(len(units))]
        for name, unit in zip(names, units):
            with h5py.File(self.path(name), "w") as file:
                rng = np.random.default_rng(len(name) + names.index(name))
                file["x"], file["y"] = rng.normal(0, 1, (8, 16, 1)).astype("f4"), rng.uniform(0, 1, 8)
                if unit is not None:
                    file["x"].attrs["units"] = unit
        self.config(names)

    def groups(self, units, **options):
        with h5py.File(self.path("g.h5"), "w") as file:
            for i, unit in enumerate(units):
                rng = np.random.default_rng(i)
                x = file.create_dataset(f"sim_{i}/x", data=rng.normal(0, 1, (16, 1)).astype("f4"), **options)
                file[f"sim_{i}/y"] = rng.uniform(0, 1, (1,))
                if unit is not None:
                    x.attrs["units"] = unit
        self.config(["g.h5"], "groups")

    def test_units_of_files(self):
        """The first that has some counts; those without have any."""
        self.files([None, "K", None, "degC"])
        for ranks in (0, 2, 3):
            self.fails(3, "data", "c.toml", ranks=ranks,
                       message="f3.h5: data set 'x' has units of degC, but f1.h5 has K; leave one of them out")
        self.files([None, "K", "degC", "degC", "m"])
        for ranks in (0, 3, 5):
            self.fails(3, "data", "c.toml", ranks=ranks, message="f2.h5: data set 'x' has units of degC, but f1.h5 has K")
        self.files([None, "K", None, "K"])
        self.mrmf("data", "c.toml", ranks=2)

    def test_units_of_groups(self):
        self.groups([None, "K", None, "degC", "K"])
        for ranks in (0, 2):
            self.fails(3, "data", "c.toml", ranks=ranks,
                       message="'sim_3/x' has units of degC, and that of 'sim_1' K; all samples are alike")
        self.groups([None, "K", None, "K"] * 2)
        self.mrmf("data", "c.toml")

    def test_units_of_two_lines(self):
        """They are the same as themselves, and an error about them has one line."""
        self.files(["m\ns-1", "m\ns-1"])
        for ranks in (0, 2):
            self.mrmf("data", "c.toml", ranks=ranks)
        self.files(["m\ns-1", "K"])
        output = self.fails(3, "data", "c.toml", message="has units of K, but f0.h5 has m s-1")
        self.assertEqual(len(output.splitlines()), 1, output)

    def test_spellings_of_units(self):
        """Blanks and case do not count, but in mW and MW."""
        for units in (["K", " k "], ["degC", "DEGC"], ["m s-1", "m  s-1 "], [np.bytes_(b"\xb0C"), "\u00b0C"]):
            self.files(units)
            self.mrmf("data", "c.toml", ranks=2)
            self.groups(units * 4)
            self.mrmf("data", "c.toml")
        self.files(["mW", "MW"])
        self.fails(3, "data", "c.toml", message="f1.h5: data set 'x' has units of MW, but f0.h5 has mW")

    def part(self, name, units, of_labels=None):
        rng = np.random.default_rng(len(name))
        with h5py.File(self.path(name), "w") as file:
            file["x"], file["y"] = rng.normal(280, 1, (16, 16, 1)).astype("f4"), rng.uniform(0, 1, 16)
            for array, text in (("x", units), ("y", of_labels)):
                if text is not None:
                    file[array].attrs["units"] = text

    def splits(self, validation, more=""):
        data = f"""train = {{ samples = "x", labels = "y" }}
validation = {{ files = ["{validation}"], samples = "x", labels = "y" }}
{more}"""
        text = support.rows_config(*NETWORK, files=["kelvin.h5"], data=data, batch=4)
        self.write("c.toml", "\n".join(line for line in text.splitlines() if not line.startswith("split")))

    def test_units_of_training_validation_and_test(self):
        self.part("kelvin.h5", "K", "m")
        self.part("celsius.h5", "degC", "m")
        self.part("feet.h5", " k", "ft")
        self.part("silent.h5", None)
        remedy = "convert one of them, or, if only the attribute 'units' is wrong, correct it"
        for ranks in (0, 2):
            for command in ("data", "train"):
                self.splits("celsius.h5")
                self.fails(3, command, "c.toml", ranks=ranks, message="celsius.h5: data set 'x' of the validation data has units "
                           f"of degC, but 'x' of the training data (kelvin.h5) K; {remedy}")
                self.splits("feet.h5")
                self.fails(3, command, "c.toml", ranks=ranks, message="feet.h5: data set 'y' of the validation data has units of ft")
                self.splits("silent.h5", 'test = { files = ["celsius.h5"], samples = "x", labels = "y" }')
                self.fails(3, command, "c.toml", ranks=ranks, message="celsius.h5: data set 'x' of the test data has units of degC")
        self.part("same.h5", "k ", " m")
        for validation in ("same.h5", "silent.h5"):
            self.splits(validation)
            self.mrmf("data", "c.toml")
            self.mrmf("train", "c.toml", "--overwrite")

    def test_a_run_remembers_its_units(self):
        for name, units in (("kelvin.h5", ("K", "m")), ("celsius.h5", ("degC", "m")), ("feet.h5", (" k", "ft")),
                            ("silent.h5", (None, None))):
            self.part(name, *units)
        self.splits("silent.h5")
        self.mrmf("train", "c.toml")
        self.assertIn('units.samples = ["K"]', self.read("run/config.toml"))
        self.assertIn('units.labels = ["m"]', self.read("run/config.toml"))
        trained = "but the model was trained on"
        for model in ("run", "run/checkpoints/final.h5"):
            for ranks in (0, 2):
                for command in (["evaluate", model], ["predict", model, "-o", "out.h5", "--overwrite"]):
                    self.fails(3, *command, "--files", "celsius.h5", ranks=ranks,
                               message=f"celsius.h5: data set 'x' has units of degC, {trained} K")
            self.fails(3, "evaluate", model, "--files", "feet.h5", message=f"data set 'y' has units of ft, {trained} m")
            self.mrmf("predict", model, "--files", "feet.h5", "-o", "out.h5", "--overwrite")  # which reads no labels
            for name in ("silent.h5", "kelvin.h5"):
                self.mrmf("evaluate", model, "--files", name)
        self.mrmf("train", "--continue", "run", "--set", "training.epochs=2")

    def test_a_run_of_an_earlier_version_knows_no_units(self):
        """It opens, evaluates anything and continues."""
        self.part("kelvin.h5", "K")
        self.part("celsius.h5", "degC")
        self.splits("kelvin.h5", 'duplicates = "allow"')
        self.mrmf("train", "c.toml")
        text = "\n".join(line for line in self.read("run/config.toml").splitlines() if not line.startswith("units."))
        self.assertNotEqual(text, self.read("run/config.toml").rstrip("\n"))
        self.write("run/config.toml", text + "\n")
        self.mrmf("evaluate", "run", "--files", "celsius.h5")
        self.mrmf("train", "--continue", "run", "--set", "training.epochs=2")
        self.assertIn('units.samples = ["K"]', self.read("run/config.toml"))

    def test_units_that_are_given(self):
        self.part("kelvin.h5", "K")
        self.part("silent.h5", None)
        self.splits("kelvin.h5", 'duplicates = "allow"\nunits.samples = ["degC"]')
        self.fails(3, "train", "c.toml", message="kelvin.h5: data set 'x' has units of K, but data.units.samples is degC")
        self.splits("kelvin.h5", 'duplicates = "allow"\nunits.samples = ["K", "m"]')
        self.fails(2, "train", "c.toml", message="data.units.samples has 2 units, and there is 1 array")
        self.splits("kelvin.h5", 'duplicates = "allow"\nunits.samples = ["?"]')
        self.mrmf("train", "c.toml")

    def test_names_of_groups_with_line_breaks(self):
        with h5py.File(self.path("g.h5"), "w") as file:
            for i in range(12):
                name = f"sim\n{i}" if i % 2 else f"sim {i}"
                file[f"{name}/x"] = np.random.default_rng(i).normal(0, 1, (16, 1)).astype("f4")
                file[f"{name}/y"] = np.array([float(i)])
        self.config(["g.h5"], "groups")
        for ranks in (0, 2):
            found = json.loads(self.mrmf("data", "c.toml", "--json", ranks=ranks))
            labels = [found[part]["label"]["channels"] for part in ("training", "validation")]
            self.assertEqual(min(one["least"][0] for one in labels), 0)
            self.assertEqual(max(one["most"][0] for one in labels), 11)
            self.assertEqual(sum(found[part]["samples"] for part in ("training", "validation")), 12)

    def test_groups_that_are_one_array(self):
        """Two names of one group are the same sample twice."""
        self.groups([None] * 8)
        self.mrmf("data", "c.toml")
        for link in ("hard", "soft"):
            self.groups([None] * 8)
            with h5py.File(self.path("g.h5"), "a") as file:
                file["sim_8"] = file["sim_2"] if link == "hard" else h5py.SoftLink("/sim_2")
            self.fails(3, "train", "c.toml", message="'x' of group 'sim_8' in g.h5")

    def test_appended_arrays_that_were_never_written(self):
        self.groups([None] * 8)
        self.mrmf("train", "c.toml")
        with h5py.File(self.path("g.h5"), "a") as file:
            for i in range(8):
                file[f"sim_{i}/id"] = np.array([i]) if i != 5 else 0
                if i == 5:
                    del file["sim_5/id"]
                    file.create_dataset("sim_5/id", (1,), "i8", chunks=(1,))
        self.fails(3, "predict", "run", "--append", "id", "-o", "out.h5", message="'sim_5/id'")
        self.mrmf("predict", "run", "--append", "id", "-o", "out.h5", "--missing", "fill")


if __name__ == "__main__":
    support.main()
