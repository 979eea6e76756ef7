"""Designs of `mrmf ensemble` over keys of simulators, trainings and commands."""
import csv
import unittest

import h5py
import numpy as np
import support

HEAT = 'ensemble.folder = "ens"\nsimulate = { simulator = "heat", size = 16 }\n'
TRAIN = 'ensemble.folder = "ens"\ntrain.config = "config.toml"\n'
COMMAND = 'ensemble.folder = "ens"\ncommand = { line = "echo {a} {b}", collect = { x = [1] } }\n'


class Designs(support.MrmfTest):
    def points(self, *words):
        """The points of spec.toml, as --design writes them."""
        self.mrmf("ensemble", "spec.toml", "--design", "points.out.csv", "--overwrite", *words)
        with open(self.path("points.out.csv"), newline="") as file:
            return list(csv.DictReader(file))

    def refused(self, message, code=2):
        self.fails(code, "ensemble", "spec.toml", "--dry-run", message=message)

    def test_lists_in_hdf5(self):
        with h5py.File(self.path("points.h5"), "w") as file:
            file["velocity_x"] = np.array([0.1, 0.2])
            file["velocity_y"] = np.array([[0.3], [0.4]])
            file["both"] = np.array([[1, 2], [3, np.nan]])
            file["words"] = ["a", "b"]
        listed = HEAT + 'design = { kind = "list", file = "points.h5", columns = ["velocity_x", "velocity_y"]%s }'
        self.write("spec.toml", listed % "")
        self.assertEqual([point["velocity_y"] for point in self.points()], ["0.3", "0.4"])
        self.write("spec.toml", listed % ', dataset = "both"')
        self.refused("points.h5: row 1: 'velocity_y' is nan", 3)
        self.write("spec.toml", listed % ', dataset = "velocity_x"')
        self.refused("design.columns names 2 keys; 'velocity_x' in points.h5 needs one for each of its columns")
        self.write("spec.toml", (listed % "").replace("velocity_y", "words"))
        self.refused("'words' holds no numbers", 3)
        self.write("spec.toml", (listed % "").replace("velocity_y", "velocity_z"))
        self.refused("velocity_z", 3)

    def test_words_of_a_training_come_back_from_a_list(self):
        support.make_data(self.path("data.h5"))
        self.config()
        self.write("spec.toml", TRAIN + 'design = { kind = "grid", keys.training.optimizer.rule = { values = ["cosine", "linear"] }, '
                   "keys.run.grid = { values = [[1], [1]] }, keys.run.deterministic = { values = [true, false] } }")
        points = self.points()
        self.assertEqual({p["run.grid"] for p in points}, {"[1]"})
        self.assertEqual([p["run.deterministic"] for p in points[:2]], ["true", "false"])
        self.write("points.csv", self.read("points.out.csv"))
        self.write("spec.toml", TRAIN + 'design = { kind = "list", file = "points.csv" }')
        self.assertEqual(self.points(), points)
        # A wrong word is found wherever it stands.
        self.write("spec.toml", TRAIN + 'design = { kind = "grid", keys.training.optimizer.rule = { values = ["cosine", "liner", "linear"] } }')
        self.refused('did you mean "linear"?')
        self.write("points.csv", "training.optimizer.rule\ncosine\nliner\nlinear\n")
        self.write("spec.toml", TRAIN + 'design = { kind = "list", file = "points.csv" }')
        self.refused('did you mean "linear"?')

    def test_words_of_a_command_are_none_of_the_shells(self):
        self.write("spec.toml", COMMAND + 'design = { kind = "list", file = "points.csv" }')
        self.write("points.csv", "a,b\nfast,1\nvery slow,2\n")
        self.assertEqual([p["a"] for p in self.points()], ["fast", "very slow"])
        for word in ("$(reboot)", "x; rm -rf y", "a|b", "a'b", "`id`", "a > b"):
            self.write("points.csv", f'a,b\nfast,1\n"{word}",2\n')
            self.refused("has a character that the shell reads")

    def test_every_simulator_of_simulate_is_there(self):
        keys = self.mrmf("ensemble", "--keys")
        for name in ("neuron", "cosmology", "heat", "texture", "volumes", "implosion"):
            self.assertIn(f'simulate.simulator = "{name}"', keys)

    def test_implosions_are_those_of_simulate(self):
        self.mrmf("simulate", "implosion", "--samples", "10", "--size", "16", "-o", "all.h5")
        with h5py.File(self.path("all.h5")) as file:
            inputs, scalars, images = (file["train_" + name][()] for name in ("inputs", "scalars", "images"))
        centre, half_width = np.array([370, 2.5, 0, 0, 0.1]), np.array([60, 1, 0.12, 0.08, 0.1])
        names = ("velocity", "adiabat", "drive_p2", "drive_p4", "mix")
        with open(self.path("points.csv"), "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            writer.writerows((centre + half_width * inputs.astype("f8")).tolist())
        self.write("spec.toml", 'ensemble.folder = "ens"\nsimulate = { simulator = "implosion", size = 16 }\ndesign = { kind = "list", file = "points.csv" }')
        self.mrmf("ensemble", "spec.toml")
        with h5py.File(self.path("ens/data.h5")) as file:
            np.testing.assert_allclose(file["scalars"], scalars, rtol=1e-4)
            np.testing.assert_allclose(file["images"], images, rtol=1e-3, atol=1e-4 * images.max())
            self.assertEqual(file["summaries"].shape, (len(inputs), 16))


if __name__ == "__main__":
    support.main()
