"""Samples in groups of groups: `init` takes all of them, splits by groups named like training and validation, and says what
it leaves out; `data` says that, too."""
import re
import tomllib

import h5py
import numpy as np

import support


class NestedGroups(support.MrmfTest):
    def make(self, groups, name="g.h5"):
        rng = np.random.default_rng(0)
        with h5py.File(self.path(name), "w") as file:
            for i, path in enumerate(groups):
                file[f"{path}/rho"] = rng.normal(i, 1, (8, 8, 2)).astype("f4")
                file[path].attrs["om"] = 0.1 * i

    def guessed(self, said, name="g.h5"):
        """The data of the configuration that init writes, after lines that say all of this; `data` agrees."""
        output = self.mrmf("init", name, "-o", "run.toml", "--overwrite")
        for line in said:
            self.assertIn(line, output)
        with open(self.path("run.toml"), "rb") as file:
            return tomllib.load(file)["data"]

    def counts(self):
        found = self.mrmf("data", "run.toml")
        self.assertIn("nothing stands in the way of training", found)
        return [int(re.search(rf"^{part}: (\d+) samples", found, re.M)[1]) for part in ("training", "validation")], found

    def test_training_and_validation(self):
        self.make([f"{'train' if i < 14 else 'val'}/sim_{i}" for i in range(20)])
        data = self.guessed(['each of 14 groups that fit "train/sim_*" is one sample', 'those that fit "val/sim_*" validate'])
        self.assertEqual((data["groups"], data["validation"]), ("train/sim_*", {"groups": "val/sim_*", "samples": "rho", "labels": "@om"}))
        self.assertNotIn("split", data)
        self.assertEqual(self.counts()[0], [14, 6])
        losses = {load: self.mrmf("train", "run.toml", "--overwrite", "--set", "training.epochs=1", "--set", f'data.load="{load}"', ranks=ranks)
                  for load, ranks in (("memory", 0), ("stream", 0))}
        for output in losses.values():
            self.assertIn("14 training and 6 validation samples", output)

    def test_levels_between(self):
        self.make([f"{'train' if i < 14 else 'validation'}/z{i % 3}/sim_{i}" for i in range(20)])
        data = self.guessed(['each of 14 groups that fit "train/z*/sim_*"'])
        self.assertEqual((data["groups"], data["validation"]["groups"]), ("train/z*/sim_*", "validation/z*/sim_*"))
        self.assertEqual(self.counts()[0], [14, 6])

    def test_tests_are_left_out_and_told(self):
        self.make([f"{'train' if i < 12 else 'val' if i < 16 else 'test'}/sim_{i}" for i in range(20)])
        told = "4 other groups that hold 'rho', such as 'test/sim_16', are not used"
        data = self.guessed([told])
        self.assertEqual(data["validation"]["groups"], "val/sim_*")
        counts, found = self.counts()
        self.assertEqual(counts, [12, 4])
        self.assertIn("g.h5: " + told, found)

    def test_tests_validate_where_nothing_else_does(self):
        self.make([f"{'train' if i < 14 else 'test'}/sim_{i}" for i in range(20)])
        self.assertEqual(self.guessed([])["validation"]["groups"], "test/sim_*")
        self.assertEqual(self.counts()[0], [14, 6])

    def test_another_depth_is_told(self):
        self.make([f"train/z{i % 2}/sim_{i}" for i in range(14)] + ["val/sim_14"])
        data = self.guessed(["group 'val/sim_14', which holds 'rho' too, is not used"])
        self.assertEqual(data["groups"], "train/z*/sim_*")
        self.assertIn("split", data)

    def test_all_levels(self):
        for groups in ([f"z{i % 3}/sim_{i}" for i in range(15)], [f"z{i % 3}/sim_{i // 3}" for i in range(15)]):
            self.make(groups)
            data = self.guessed(['each of 15 groups that fit "z*/sim_*"'])
            self.assertEqual(data["groups"], "z*/sim_*")
            self.assertEqual(self.counts()[0], [12, 3])

    def test_parts_of_a_sample_are_no_samples(self):
        shapes = {"gas": (8, 8, 2), "stars": (4, 4, 2), "dark": (2, 2, 2)}
        with h5py.File(self.path("g.h5"), "w") as file:
            for i in range(15):
                for part, shape in shapes.items():
                    file[f"sim_{i}/{part}/rho"] = np.random.default_rng(i).normal(0, 1, shape).astype("f4")
                file[f"sim_{i}/om"] = 0.1 * i
        self.assertEqual(self.guessed(['each of 15 groups that fit "sim_*"'])["groups"], "sim_*")

    def test_data_tells_what_a_pattern_leaves_out(self):
        self.make([f"{'a' if i < 12 else 'b'}/sim_{i}" for i in range(16)])
        data = 'rows = "groups"\ngroups = "a/*"\ntrain = { samples = "rho", labels = "@om" }'
        self.write("run.toml", support.rows_config("flatten", "dense units=1", files=("g.h5",), data=data))
        self.assertIn("g.h5: 4 other groups that hold 'rho', such as 'b/sim_12', are not used", self.mrmf("data", "run.toml", ranks=2))
        self.mrmf("data", "run.toml", "--json")
        all_of_them = self.mrmf("data", "run.toml", "--set", 'data.groups="*/*"')
        self.assertNotIn("not used", all_of_them)

    def test_patterns_of_other_depths(self):
        """One line that names a group that holds the samples, and what would fit it."""
        self.make([f"train/z{i % 2}/sim_{i}" for i in range(12)])
        for pattern in ("train/**", "**", "sim_*", "train/*", "*", "none_*/*"):
            data = f'rows = "groups"\ngroups = "{pattern}"\ntrain = {{ samples = "rho", labels = "@om" }}'
            self.write("run.toml", support.rows_config("flatten", "dense units=1", files=("g.h5",), data=data))
            for command in ("data", "train"):
                self.fails(3, command, "run.toml",
                           message="'train/z0/sim_0' holds 'rho': write a name or * for each level, such as \"*/*/*\"")


if __name__ == "__main__":
    support.main()
