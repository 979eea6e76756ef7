"""Scales and marks of missing numbers by attributes of other conventions than netCDF's: nothing applies them, and nothing mixes
numbers of several scales without a word."""
import h5py
import numpy as np

import support
from people_files import InitTest

NETWORK = ("conv filters=2 kernel=3", "relu", "flatten", "dense units=1")
REMEDY = "store what these numbers mean"
EOS = {"ScaleFactor": np.array([0.01]), "Offset": np.array([250.0]), "MissingValue": np.array([-32768], "i2")}
EOS_LINE = ("ScaleFactor = 0.01, Offset = 250, MissingValue = -32768 are not applied; store what these numbers mean, or name the "
            "attributes scale_factor, add_offset and _FillValue, which are")
PACKED = ({"scale_factor": 0.01, "add_offset": 280.0}, {"scale_factor": 0.002, "add_offset": 290.0})


class OtherScales(InitTest):
    def one(self, name, attributes, x=None):
        rng = np.random.default_rng(sum(name.encode()))
        with h5py.File(self.path(name), "w") as file:
            file["x"] = rng.normal(0, 1, (16, 16, 1)).astype("f4") if x is None else x
            file["y"] = rng.uniform(0, 1, len(file["x"]))
            file["x"].attrs.update(attributes)

    def config(self, files, rows="axis", **options):
        data = f'rows = "{rows}"\ntrain = {{ samples = "x", labels = "y" }}'
        self.write("c.toml", support.rows_config(*NETWORK, files=files, data=data, batch=4, **options))

    def files(self, *attributes):
        for i, one in enumerate(attributes):
            self.one(f"f{i}.h5", one)
        self.config([f"f{i}.h5" for i in range(len(attributes))])

    def differ(self, first, other, *texts, ranks=0):
        """texts: what the first file has, and what the other one."""
        self.files(first, other)
        self.fails(3, "data", "c.toml", ranks=ranks, message=f"f1.h5: data set 'x' has a scale that is not applied, {texts[1]}, "
                   f"but f0.h5 has {texts[0]}; {REMEDY}, or leave one of them out")
        self.mrmf("data", "c.toml", "--set", 'data.packing="ignore"')  # as they are stored

    def test_files_of_other_scales(self):
        volts = {"unit": "volts"}
        self.differ({"conversion": 1e-6, **volts}, {"conversion": 1e-3, **volts}, "conversion = 1e-06", "conversion = 0.001")
        self.differ({"unitSI": 1.0}, {"unitSI": 1e3}, "unitSI = 1", "unitSI = 1000", ranks=2)
        self.differ({"ScaleFactor": "0.01"}, {"ScaleFactor": np.array([0.5])}, "ScaleFactor = 0.01", "ScaleFactor = 0.5")
        lines = [{"slope": np.float32(slope), "intercept": np.int32(3)} for slope in (0.1, 0.2)]
        self.differ(*lines, "slope = 0.1, intercept = 3", "slope = 0.2, intercept = 3")
        self.differ({"units": "K"}, {"units": "K", "ScaleFactor": 0.5}, "none", "ScaleFactor = 0.5")

    def test_scales_that_say_the_same_or_nothing(self):
        self.files({"units": "K"}, {"Units": "k", "ScaleFactor": 1.0, "Offset": 0.0})
        self.assertNotIn("not applied", self.mrmf("data", "c.toml"))
        self.files(*({"scale_factor": one, "ScaleFactor": one} for one in (0.5, 0.25)))  # beside netCDF's own
        self.assertNotIn("not applied", self.mrmf("data", "c.toml"))
        self.files(*({"Scale": one, "conversion": one, "slope": one} for one in (0.5, 0.25)))  # which may mean anything
        self.assertNotIn("not applied", self.mrmf("data", "c.toml"))
        self.files({"unitSI": 2.5}, {"unitSI": np.float32(2.5)})
        self.assertIn("advice: 'x': unitSI = 2.5 is not applied; " + REMEDY, self.mrmf("data", "c.toml", ranks=2))

    def test_a_unit_is_units(self):
        for name in ("unit", "Units"):
            self.files({name: "volts"}, {"units": "Volts"}, {name: "millivolts"})
            self.fails(3, "data", "c.toml", message="f2.h5: data set 'x' has units of millivolts, but f0.h5 has volts; leave one")
        self.files({"units": "m", "unit": "a"}, {"units": "m", "unit": "b"})
        self.mrmf("data", "c.toml")

    def test_groups_of_other_scales(self):
        with h5py.File(self.path("g.h5"), "w") as file:
            for i in range(8):
                rng = np.random.default_rng(i)
                file[f"sim_{i}/x"], file[f"sim_{i}/y"] = rng.normal(0, 1, (16, 1)).astype("f4"), rng.uniform(0, 1, (1,))
                file[f"sim_{i}/x"].attrs["unitSI"] = 1.0 if i < 3 else 1e3
        self.config(["g.h5"], "groups")
        self.fails(3, "data", "c.toml", message="'sim_3/x' has a scale that is not applied, unitSI = 1000, and that of 'sim_0' "
                   f"unitSI = 1; all samples are alike: {REMEDY}, or leave it out by data.groups")

    def stored(self):
        x = np.random.default_rng(1).integers(-900, 900, (48, 16, 16)).astype("i2")
        x[::5, 3, 3] = -32768
        return x

    def test_lines_of_what_is_not_applied(self):
        self.one("eos.h5", EOS, self.stored())
        self.assertIn("'x': " + EOS_LINE, self.mrmf("init", "eos.h5", "-o", "eos.toml"))
        self.assertIn("# 'x': " + EOS_LINE, self.read("eos.toml"))
        self.assertEqual(self.mrmf("data", "eos.toml").count("advice: 'x': " + EOS_LINE), 1)
        said = self.mrmf("coarsen", "eos.h5", "--factor", "2,2", "--axes", "n y x", "--samples", "x", "-o", "coarse")
        self.assertIn("coarse/eos.h5: 'x': " + EOS_LINE, said)
        self.assertNotIn("not applied", self.mrmf("init", "eos.h5", "-o", "stored.toml", "--packing", "ignore"))
        self.one("cf.h5", {"scale_factor": 0.01, "add_offset": 250.0, "_FillValue": np.int16(-32768)}, self.stored())
        self.assertNotIn("not applied", self.mrmf("init", "cf.h5", "-o", "cf.toml") + self.mrmf("data", "cf.toml"))

    def test_in_how_many_files(self):
        self.files({}, {"MissingValue": np.float32(-9999)}, {"MissingValue": -9999})
        for ranks in (0, 2):
            said = self.mrmf("data", "c.toml", ranks=ranks)
            self.assertIn("advice: 'x' in 2 of 3 files: MissingValue = -9999 is not applied", said)

    def test_a_run_remembers_scales(self):
        for name, scale in (("f0.h5", 1e-6), ("f1.h5", 1e-3)):
            self.one(name, {"unit": "volts", "conversion": scale})
        self.config(["f0.h5"])
        self.mrmf("train", "c.toml")
        known = 'units.samples = ["volts (conversion = 1e-06)"]'
        self.assertIn(known, self.read("run/config.toml"))
        self.mrmf("evaluate", "run")
        for model in ("run", "run/checkpoints/final.h5"):
            self.fails(3, "evaluate", model, "--files", "f1.h5", message="f1.h5: data set 'x' has a scale that is not applied, "
                       f"conversion = 0.001, but the model was trained on conversion = 1e-06; {REMEDY}")
        # A run of an earlier version recorded no scales, and no units by this name.
        for earlier in ('units.samples = ["volts"]', ""):
            self.write("run/config.toml", self.read("run/config.toml").replace(known, earlier))
            self.mrmf("evaluate", "run", "--files", "f1.h5")
            known = earlier
        self.mrmf("train", "--continue", "run", "--set", "training.epochs=2")

    def virtual(self, *packed, own=None):
        layout = h5py.VirtualLayout((16 * len(packed), 16, 1), "i2")
        for i, attributes in enumerate(packed):
            self.one(f"e{i}.h5", attributes, np.random.default_rng(i).integers(-900, 900, (16, 16, 1)).astype("i2"))
            layout[16 * i:16 * i + 16] = h5py.VirtualSource(f"e{i}.h5", "x", (16, 16, 1))
        with h5py.File(self.path("v.h5"), "w") as file:
            file.create_virtual_dataset("x", layout)
            file["x"].attrs.update(own or {})
            file["y"] = np.random.default_rng(9).uniform(0, 1, 16 * len(packed))
        self.config(["v.h5"])
        return self.mrmf("data", "c.toml")

    def test_attributes_of_the_sources_of_virtual_data_sets(self):
        line = r"advice: 'x': of virtual data sets their own attributes count, and those of its sources are not applied: "
        first, other = (rf"scale_factor = {scale}, add_offset = {offset} \(\S*{file}\)"
                        for scale, offset, file in ((0.01, 280, "e0.h5"), (0.002, 290, "e1.h5")))
        self.assertRegex(self.virtual(*PACKED), line + f"they differ, {first} and {other}; copy what these numbers mean")
        self.assertRegex(self.virtual(PACKED[0], PACKED[0]), line + f"{first}; give it these attributes")
        for said in (self.virtual(*PACKED, own={"scale_factor": 0.5}), self.virtual({}, {})):
            self.assertNotIn("not applied", said)

    def test_training_warns_of_what_is_not_applied(self):
        self.virtual(*PACKED)
        for ranks in (0, 2):
            said = self.mrmf("train", "c.toml", "--overwrite", ranks=ranks)
            self.assertEqual(said.count("warning: 'x': of virtual data sets their own attributes count, and those of its sources are not "
                                        "applied: they differ, scale_factor = 0.01"), 1, said)
        self.files({}, {"MissingValue": np.float32(-9999)}, {"MissingValue": -9999})
        for ranks in (0, 2):
            said = self.mrmf("train", "c.toml", "--overwrite", ranks=ranks)
            self.assertIn("warning: 'x' in 2 of 3 files, such as f1.h5: MissingValue = -9999 is not applied", said)


if __name__ == "__main__":
    support.main()
