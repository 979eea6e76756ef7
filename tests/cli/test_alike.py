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
