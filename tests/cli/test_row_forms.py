"""One sample per file or per group: the same numbers as rows of one array give the same models in every form."""
import glob
import json
import os
import re
import resource
import shutil
import subprocess
import tempfile

import h5py
import numpy as np

import support

N = 24
CONFIG = """
[data]
files = [{files}]
{data}
split = {{ by = "rows", validation = 0.25 }}
[training]
batch = 3
epochs = 2
seed = 1
[method]
name = "baseline"
[run]
folder = "{run}"
threads = 1
""" + support.layers("conv filters=4 kernel=3 padding=\"same\"", "relu", "average_pool window=2", "flatten", "dense units=2")
TWICE = ('labels = ["@omega_m", "@sigma_8"]', 'labels = "params"')


def numbers(seed=0):
    rng = np.random.default_rng(seed)
    y = rng.uniform(0, 1, (N, 2)).astype("f4")
    x = rng.normal(0, 1, (N, 8, 8, 2)).astype("f4") + y[:, None, None, :]
    return x, y


def one_sample(place, x, y, kind):
    """The data sets of a sample, and its labels once more as attributes."""
    if kind == "packed":
        place.create_dataset("density", data=x, chunks=(3, 8, 2), compression="gzip")
    elif kind == "big_endian":
        place["density"] = x.astype(">f4")
    elif kind == "channels_first":
        place["density"] = np.moveaxis(x, -1, 0)
    else:
        place["density"] = x
    place["params"] = y
    place["grid/x"] = np.linspace(0, 1, 8)
    place.attrs["omega_m"], place.attrs["sigma_8"] = y[0], np.array([y[1]])


class RowForms(support.MrmfTest):
    axis = None  # a folder with the array and the run on it, which all compare with

    def setUp(self):
        super().setUp()
        self.x, self.y = numbers()
        with h5py.File(self.path("axis.h5"), "w") as file:
            file["x"], file["y"] = self.x, self.y
        if RowForms.axis is None:
            self.run_form("axis", 'train = { samples = "x", labels = "y" }', '"axis.h5"')
            scratch = tempfile.TemporaryDirectory(prefix="mrmf-axis-")
            self.addClassCleanup(scratch.cleanup)
            RowForms.axis = scratch.name
            shutil.copytree(self.path("axis"), os.path.join(scratch.name, "axis"))
        else:
            shutil.copytree(os.path.join(self.axis, "axis"), self.path("axis"))

    def make(self, kind="plain", skip=()):
        os.makedirs(self.path("each"), exist_ok=True)
        for i in set(range(N)) - set(skip):
            with h5py.File(self.path(f"each/sim{i:03}.h5"), "w") as file:
                one_sample(file, self.x[i], self.y[i], kind)
        for name, samples in (("g1.h5", range(10)), ("g2.h5", range(10, N))):
            with h5py.File(self.path(name), "w") as file:
                file["notes/text"] = "not a sample"
                for i in set(samples) - set(skip):
                    one_sample(file.create_group(f"sim_{i:03}"), self.x[i], self.y[i], kind)

    def config(self, run, data, files):
        self.write(run + ".toml", CONFIG.format(files=files, data=data, run=run))
        return run + ".toml"

    def run_form(self, run, data, files, *options, ranks=0):
        return self.mrmf("train", self.config(run, data, files), *options, ranks=ranks)

    FORMS = {"files": ('rows = "files"', '"each/*.h5"'), "groups": ('rows = "groups"\ngroups = "sim_*"', '"g1.h5", "g2.h5"')}

    def data(self, form, labels='labels = "params"', more=""):
        rows, files = self.FORMS[form]
        return f'{rows}\n{more}train = {{ samples = "density", {labels} }}', files

    def test_models_are_the_same_bits(self):
        self.make()
        for form in self.FORMS:
            for number, labels in enumerate(TWICE):
                run = f"{form}{number}"
                self.run_form(run, *self.data(form, labels))
                self.same_models("axis", run)
            self.run_form("stream" + form, *self.data(form), "--set", 'data.load="stream"')
            self.same_models("axis", "stream" + form)

    def test_ranks_shards_and_grids(self):
        self.make()
        self.run_form("axis2", 'train = { samples = "x", labels = "y" }', '"axis.h5"', ranks=2)
        grid = ("--set", "run.grid=[2,1]", "--set", 'data.load="stream"')
        self.run_form("axis_grid", 'train = { samples = "x", labels = "y" }', '"axis.h5"', *grid, ranks=2)
        for form in self.FORMS:
            self.run_form(form + "2", *self.data(form, TWICE[0]), ranks=2)
            self.same_models("axis2", form + "2")
            self.run_form(form + "_grid", *self.data(form), *grid, ranks=2)
            self.same_models("axis_grid", form + "_grid")

    def test_storages(self):
        for kind in ("packed", "big_endian", "channels_first"):
            self.make(kind)
            for form in self.FORMS:
                more = 'axes = "c y x"\n' if kind == "channels_first" else ""
                run = kind + form
                self.run_form(run, *self.data(form, more=more), "--set", 'data.load="stream"')
                self.same_models("axis", run)
        again = self.read("channels_firstfiles/config.toml")  # which is read by other commands
        self.assertIn('axes = "n c y x"', again)
        self.mrmf("evaluate", "channels_firstfiles")

    def scores(self, run):
        text = self.mrmf("evaluate", run, "--json")  # and lines on standard error
        found = json.JSONDecoder().raw_decode(text[text.index("{"):])[0]
        for label in found["labels"]:
            label.pop("name", None)  # of attributes, which have one each
        return found

    def test_evaluate_and_predict(self):
        self.make()
        wanted = {**self.scores("axis"), "files": 0, "samples_name": "", "labels_name": ""}
        self.mrmf("predict", "axis", "-o", "axis.pred.h5")
        for form in self.FORMS:
            self.run_form(form, *self.data(form, TWICE[0]))
            found = self.scores(form)
            self.assertEqual(found["labels_name"], "@omega_m, @sigma_8")
            self.assertEqual({**found, "files": 0, "samples_name": "", "labels_name": ""}, wanted)
            self.mrmf("predict", form, "--append", "params", "-o", form + ".h5", ranks=2)
            with h5py.File(self.path(form + ".h5")) as file, h5py.File(self.path("axis.pred.h5")) as axis:
                np.testing.assert_array_equal(file["prediction"], axis["prediction"])
                rows = axis["row"][()]  # of validation, in the one file
                np.testing.assert_array_equal(file["params"], self.y[rows])
                at = file["file"][()] if form == "files" else file["row"][()] + 10 * file["file"][()]
                np.testing.assert_array_equal(at, rows)
            self.assertIn("samples of density with labels params", self.mrmf("evaluate", form, "--labels", "params", "--samples", "density"))

    def test_other_commands(self):
        self.make()
        for form in self.FORMS:
            config = self.config(form, *self.data(form))
            self.assertIn("18 samples", self.mrmf("data", config))
            self.assertIn("8x8x2", self.mrmf("inspect", config))
            self.mrmf("bench", "io", config)
            self.mrmf("plan", config)

    def test_rows_that_are_not_finite(self):
        self.x[3, 2, 2, 0], self.y[12, 1] = np.nan, np.inf
        self.make()
        for form, place in (("files", "each/sim003.h5: data set 'density'"), ("groups", "g1.h5: data set 'sim_003/density'")):
            text = self.mrmf("train", self.config("bad" + form, *self.data(form)), "--set", "data.split.validation=0.04", code=3)
            self.assertRegex(text, "(" + place + "|data set '(sim_012/)?params') holds (NaN|an infinity)")
            self.assertNotIn("row", text.split(";")[0])
            text = self.run_form("skip" + form, *self.data(form), "--set", 'data.not_finite="skip"', ranks=2)
            for name in (("each/sim003.h5", "each/sim012.h5") if form == "files" else ("g1.h5: sim_003", "g2.h5: sim_012")):
                self.assertIn("left out of " + name, text)

    def test_rows_that_were_never_written(self):
        self.make()
        with h5py.File(self.path("each/sim007.h5"), "a") as file, h5py.File(self.path("g1.h5"), "a") as groups:
            for place in (file, groups["sim_007"]):
                del place["density"]
                place.create_dataset("density", (8, 8, 2), "f4", chunks=(4, 8, 2))
        for form, place in (("files", "each/sim007.h5: data set 'density'"), ("groups", "g1.h5: data set 'sim_007/density'")):
            text = self.mrmf("train", self.config("gap" + form, *self.data(form)), ranks=2, code=3)
            self.assert_line(text, place, "never written")
            self.run_form("fill" + form, *self.data(form), "--set", 'data.missing="fill"')

    def assert_line(self, text, *parts):
        lines = [line for line in text.splitlines() if "mrmf" in line and ": " in line and "prterun" not in line]
        found = [line for line in text.splitlines() if all(part in line for part in parts)]
        self.assertEqual(len(found), 1, f"{parts}\n{lines}\n{text}")

    def refused(self, form, *parts, labels='labels = "params"', code=3, several=(0,)):
        config = self.config("refused", *self.data(form, labels))
        for ranks in several:
            self.assert_line(self.mrmf("train", config, ranks=ranks, code=code), *parts)
        self.assertFalse(os.path.exists(self.path("refused")))

    def test_files_that_are_not_alike(self):
        self.make()
        with h5py.File(self.path("each/sim005.h5"), "a") as file:
            del file["density"]
            file["density"] = self.x[5][:, :, :1]
        with h5py.File(self.path("each/sim020.h5"), "a") as file:  # wrong, too, but later
            del file["density"]
        self.refused("files", "each/sim005.h5", "8x8x1", "each/sim000.h5", "8x8x2", several=(0, 2))
        self.make()
        for i, unit in enumerate(("K", "K", "degC")):
            with h5py.File(self.path(f"each/sim00{i}.h5"), "a") as file:
                file["density"].attrs["units"] = unit
        self.refused("files", "each/sim002.h5", "degC", "each/sim000.h5", "K")

    def test_groups_that_are_not_alike(self):
        self.make()
        with h5py.File(self.path("g2.h5"), "a") as file:
            del file["sim_015/density"]
            file["sim_015/density"] = self.x[5][:4]
        self.refused("groups", "g2.h5: data set 'sim_015/density'", "(4, 8, 2)", "sim_010", "(8, 8, 2)", several=(0, 2))
        with h5py.File(self.path("g2.h5"), "a") as file:
            del file["sim_015/density"]
        self.refused("groups", "g2.h5", "no data set 'sim_015/density'")
        with h5py.File(self.path("g2.h5"), "a") as file:
            file["sim_015/density"] = self.x[15].astype("f8")  # of another type, which is no matter
            file["sim_015/density"].attrs["units"] = "K"
            file["sim_010/density"].attrs["units"] = "degC"
        self.refused("groups", "sim_015/density", "units of K", "degC")

    def test_attributes_that_are_not_there(self):
        self.make()
        with h5py.File(self.path("each/sim009.h5"), "a") as file, h5py.File(self.path("g1.h5"), "a") as groups:
            for place in (file, groups["sim_009"]):
                place.attrs["omega"] = place.attrs["omega_m"]
                del place.attrs["omega_m"]
        self.refused("files", "each/sim009.h5: no attribute 'omega_m' of the file", "omega, sigma_8", labels=TWICE[0])
        self.refused("groups", "g1.h5: no attribute 'omega_m' of 'sim_009'", "omega, sigma_8", labels=TWICE[0], several=(0, 2))
        with h5py.File(self.path("each/sim000.h5"), "a") as file:
            file.attrs["omega_m"] = "0.3"
        self.refused("files", "attribute 'omega_m' of the file holds words; as classes", labels=TWICE[0])
        self.refused("files", "no 'nowhere' that could have an attribute 'x'", labels='labels = "nowhere@x"')
        self.refused("files", "no attribute 'x' of 'density'; it has none", labels='labels = "density@x"')
        for form in "files", "groups":
            self.refused(form, "density@' stands for an attribute and does not say which", labels='labels = "density@"')

    def test_attributes_of_other_objects(self):
        self.make()
        for i in range(N):
            with h5py.File(self.path(f"each/sim{i:03}.h5"), "a") as file:
                file["density"].attrs["both"] = self.y[i]
            with h5py.File(self.path("g1.h5" if i < 10 else "g2.h5"), "a") as file:
                file[f"sim_{i:03}/grid"].attrs["both"] = self.y[i].astype(">f8")
        self.run_form("files", *self.data("files", 'labels = "density@both"'))
        self.same_models("axis", "files")
        self.run_form("groups", *self.data("groups", 'labels = "grid@both"'))
        self.same_models("axis", "groups")
        for name in ("g1.h5", "g2.h5"):
            with h5py.File(self.path(name), "a") as file:
                file.attrs["box"] = 25.0
        self.mrmf("data", self.config("root", *self.data("groups", 'labels = "/@box"')))

    def test_patterns_of_groups(self):
        self.make()
        self.run_form("default", 'rows = "groups"\ntrain = { samples = "density", labels = "params" }', '"g1.h5", "g2.h5"')
        self.same_models("axis", "default")  # notes/ holds no sample
        with h5py.File(self.path("nested.h5"), "w") as file:
            for i in range(N):
                one_sample(file.create_group(f"{'val' if i % 4 == 0 else 'train'}/sim_{i}"), self.x[i], self.y[i], "plain")
        text = self.mrmf("data", self.config("nested", 'rows = "groups"\ngroups = "train/sim_*"\n'
                                             'validation = { groups = "val/*", samples = "density", labels = "params" }\n'
                                             'train = { samples = "density", labels = "params" }', '"nested.h5"')
                         , "--set", 'data.split.by="given"')
        self.assertIn("18 samples", text)
        self.assertIn("6 samples", text)
        none = self.config("none", 'rows = "groups"\ngroups = "sin_*"\ntrain = { samples = "density", labels = "params" }', '"g1.h5"')
        self.assert_line(self.mrmf("train", none, code=3), 'no group fits "sin_*"', "sim_000")
        off = self.config("off", 'groups = "sim_*"\ntrain = { samples = "x", labels = "y" }', '"axis.h5"')
        self.assert_line(self.mrmf("train", off, code=2), "data.groups", 'data.rows = "groups"')

    def test_coarse_copies(self):
        self.make()
        mean = self.x.reshape(N, 4, 2, 4, 2, 2).mean((2, 4))
        for ranks in (0, 2):
            out = f"half{ranks}"
            self.mrmf("coarsen", *(f"each/sim{i:03}.h5" for i in range(N)), "--rows", "files", "--factor", "2,2", "-o", out,
                      ranks=ranks)
            self.mrmf("coarsen", "g1.h5", "g2.h5", "--rows", "groups", "--samples", "density", "--factor", "2,2", "-o", out,
                      ranks=ranks)
            for i in (0, 11):
                with h5py.File(self.path(f"{out}/sim{i:03}.h5")) as file, \
                        h5py.File(self.path(f"{out}/g{1 if i < 10 else 2}.h5")) as groups:
                    for place in (file, groups[f"sim_{i:03}"]):
                        np.testing.assert_allclose(place["density"], mean[i], rtol=1e-5, atol=1e-6)
                        np.testing.assert_array_equal(place["params"], self.y[i])
                        self.assertEqual(place.attrs["omega_m"], self.y[i, 0])
        config = self.config("copy", *self.data("groups", TWICE[0]))
        self.write(config, self.read(config).replace("g1.h5", "half0/g1.h5").replace("g2.h5", "half0/g2.h5"))
        self.assertIn("4x4x2", self.mrmf("inspect", config))

    def initialised(self, *words):
        """What init writes for these files, and that it trains."""
        self.mrmf("init", *words, "-o", "init.toml", "--folder", "init_run", "--overwrite")
        text = self.read("init.toml")
        said = self.mrmf("data", "init.toml", "--set", 'data.split.validation=0.5')
        self.assertEqual(re.findall(r"^(\w+): (\d+) samples", said, re.M),
                         [("training", str(N // 2)), ("validation", str(N // 2))])
        self.mrmf("train", "init.toml", "--set", "training.epochs=1", "--set", 'method.name="baseline"', "--overwrite")
        return text

    def test_init(self):
        self.make()
        files, groups = self.initialised("each/*.h5"), self.initialised("g1.h5", "g2.h5")
        for text in (files, groups):
            self.assertIn('samples = "density", labels = "params"', text)
        self.assertIn('rows = "files"', files)
        self.assertIn('rows = "groups"\ngroups = "sim_*"', groups)
        for name in glob.glob(self.path("each/*")) + [self.path("g1.h5"), self.path("g2.h5")]:  # attributes alone
            with h5py.File(name, "a") as file:
                for place in [file] if "each" in name else [file[g] for g in file if g != "notes"]:
                    del place["params"]
        for words in (("each/*.h5",), ("g1.h5", "g2.h5")):
            self.assertIn('labels = ["@omega_m", "@sigma_8"]', self.initialised(*words))

    def test_init_of_rows_along_an_axis(self):
        """Files and groups of many rows each are no samples."""
        for i in range(3):
            with h5py.File(self.path(f"part{i}.h5"), "w") as file:
                file["x"], file["y"], file["grid"] = self.x[8 * i:8 * i + 8], self.y[8 * i:8 * i + 8], np.arange(8.0)
        text = self.initialised("part*.h5")
        self.assertNotIn("rows = ", text)
        self.assertIn('samples = "x", labels = "y"', text)

    def test_more_files_than_may_be_open(self):
        """Every file is used again in the second epoch, by several threads, with fewer files open than there are."""
        self.x, self.y = np.tile(self.x, (10, 1, 1, 1)), np.tile(self.y, (10, 1))
        os.makedirs(self.path("each"))
        for i in range(10 * N):
            with h5py.File(self.path(f"each/{i:03}.h5"), "w") as file:
                one_sample(file, self.x[i], self.y[i], "plain" if i % 3 else "packed")
        with h5py.File(self.path("axis.h5"), "w") as file:
            file["x"], file["y"] = self.x, self.y
        self.run_form("axis10", 'train = { samples = "x", labels = "y" }', '"axis.h5"', "--set", 'data.load="stream"')
        config = self.config("few", *self.data("files"))
        done = subprocess.run([support.MRMF, "train", config, "--set", 'data.load="stream"'], cwd=self.folder, text=True,
                              capture_output=True, env=support.environment(),
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (160, 160)))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.same_models("axis10", "few")
        self.assertEqual(len(glob.glob(self.path("each/*"))), 240)


if __name__ == "__main__":
    support.main()
