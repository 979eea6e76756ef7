"""Arrays behind links: of every kind, the same numbers in every command, on any number of ranks, in memory and streamed."""
import json
import os
import shutil

import h5py
import numpy as np

import support

CONFIG = support.rows_config("conv filters=3 kernel=3", "relu", "flatten", "dense units=1", files=["master.h5"])


def values(level, seed):
    rng = np.random.default_rng(seed)
    y = rng.uniform(0, 1, 64).astype("f4")
    return (level + y[:, None, None] + rng.normal(0, 1, (64, 32, 2))).astype("f4"), y


class Links(support.MrmfTest):
    # In master.h5: the samples' name for each kind of link. The labels have the same name with another end.
    KINDS = ("direct", "packed", "block", "soft", "soft_group/", "chain", "virtual", "far_soft", "hard")

    def setUp(self):
        super().setUp()
        self.x, self.y = values(5, 1)
        os.makedirs(self.path("runs/deep"))
        for name in ("plain.h5", "run.h5", "runs/run.h5", "runs/deep/c.h5"):
            self.store(name, self.x, self.y)
        self.store("source.h5", *values(0, 2))   # beside the master: not what the virtual arrays name
        self.store("runs/source.h5", self.x, self.y)
        self.store("block.h5", self.x, self.y, userblock_size=1 << 16)
        with h5py.File(self.path("run.h5"), "a") as file:
            for name in ("x", "y"):
                file[f"other/{name}"] = file[name]
                file.create_dataset(f"p{name}", data=file[name], chunks=(7, *file[name].shape[1:]), compression="gzip")
        with h5py.File(self.path("runs/run.h5"), "a") as file:
            for name in ("x", "y"):
                layout = h5py.VirtualLayout(file[name].shape, "f4")
                layout[...] = h5py.VirtualSource("source.h5", name, file[name].shape)
                file.create_virtual_dataset(f"v{name}", layout)
                file[f"g/{name}"] = h5py.SoftLink(f"/{name}")
                file[f"c{name}"] = h5py.ExternalLink("deep/c.h5", name)
        self.store("master.h5", *values(0, 2))   # numbers of its own at the same places, as plausible
        with h5py.File(self.path("master.h5"), "a") as file:
            for name in ("x", "y"):
                file["direct" + name] = h5py.ExternalLink("run.h5", name)
                file["packed" + name] = h5py.ExternalLink("run.h5", "p" + name)
                file["block" + name] = h5py.ExternalLink("block.h5", name)
                file["soft" + name] = h5py.SoftLink("/direct" + name)
                file["chain" + name] = h5py.ExternalLink("runs/run.h5", "c" + name)
                file["virtual" + name] = h5py.ExternalLink("runs/run.h5", "v" + name)
                file["far_soft" + name] = h5py.ExternalLink("runs/run.h5", "g/" + name)
                file["hard" + name] = h5py.ExternalLink("run.h5", "other/" + name)
            file["group"] = h5py.ExternalLink("runs/run.h5", "/g")
            file["soft_group"] = h5py.SoftLink("/group")
        self.write("c.toml", CONFIG)

    def store(self, path, x, y, **options):
        with h5py.File(self.path(path), "w", **options) as file:
            file["x"], file["y"] = x, y

    def of(self, kind, *more):
        words = (f"data.train.samples='{kind}x'", f"data.train.labels='{kind}y'", *more)
        return [word for one in words for word in ("--set", one)]

    def losses(self, run):
        return [line["validation_loss"] for line in self.lines(f"{run}/epochs.jsonl")]

    def test_every_kind_trains_and_predicts_as_the_array_itself(self):
        self.mrmf("train", "c.toml", "--set", 'data.files=["plain.h5"]', "--set", "run.folder=plain")
        expected = self.losses("plain")
        for i, kind in enumerate(self.KINDS):  # tests/unit/test_links.cpp has all of them, in memory and streamed
            with self.subTest(kind):
                self.mrmf("train", "c.toml", *self.of(kind, f"data.load={('memory', 'stream')[i % 2]}"))
                self.assertEqual(self.losses("run"), expected)
                shutil.rmtree(self.path("run"))

    def test_data_and_predictions(self):
        self.mrmf("train", "c.toml", "--set", 'data.files=["plain.h5"]')
        self.mrmf("predict", "run", "--files", "plain.h5", "--samples", "x", "-o", "expected.h5")
        with h5py.File(self.path("expected.h5")) as file:
            expected = file["prediction"][:]
        for kind in self.KINDS:
            with self.subTest(kind):
                found = json.loads(self.mrmf("data", "c.toml", "--json", *self.of(kind)))
                whole = sum(found[part]["samples"] * np.array(found[part]["sample"]["channels"]["mean"])
                            for part in ("training", "validation")) / 64
                np.testing.assert_allclose(whole, self.x.mean(axis=(0, 1), dtype="f8"), rtol=1e-6)
                self.mrmf("predict", "run", "--files", "master.h5", "--samples", kind + "x", "-o", "out.h5", "--overwrite")
                with h5py.File(self.path("out.h5")) as file:
                    np.testing.assert_array_equal(file["prediction"][:], expected)

    def test_several_ranks(self):
        self.mrmf("train", "c.toml", "--set", 'data.files=["plain.h5"]', "--set", "run.folder=plain", ranks=2)
        for kind, load in (("chain", "stream"), ("virtual", "memory"), ("group/", "stream")):
            self.mrmf("train", "c.toml", *self.of(kind, f"data.load={load}", "run.folder=" + kind.strip("/")), ranks=2)
            self.assertEqual(self.losses(kind.strip("/")), self.losses("plain"))

    def test_init_finds_linked_arrays(self):
        with h5py.File(self.path("links.h5"), "w") as file:
            file["pictures"] = h5py.ExternalLink("runs/run.h5", "cx")
            file["label"] = h5py.ExternalLink("run.h5", "py")
            file["nothing"] = h5py.ExternalLink("gone.h5", "x")
        said = self.mrmf("init", "links.h5", "-o", "made.toml")
        self.assertIn("not used: 'nothing' leads to 'x' of gone.h5, which is not there", said)
        self.assertIn('train = { samples = "pictures", labels = "label" }', self.read("made.toml"))
        self.mrmf("data", "made.toml")

    def test_links_that_lead_nowhere(self):
        os.mkfifo(self.path("pipe.h5"))
        with h5py.File(self.path("master.h5"), "a") as file:
            file["gone"] = h5py.ExternalLink("gone.h5", "/x")
            file["lost"] = h5py.ExternalLink("run.h5", "/no/x")
            file["circle"] = h5py.SoftLink("/circle")
            file["pipe"] = h5py.ExternalLink("pipe.h5", "/x")
            file["device"] = h5py.ExternalLink("/dev/zero", "/x")
        with h5py.File(self.path("run.h5"), "a") as file:
            file["pipe"] = h5py.ExternalLink("pipe.h5", "/x")
        with h5py.File(self.path("master.h5"), "a") as file:
            file["far_pipe"] = h5py.ExternalLink("run.h5", "/pipe")
        self.mrmf("train", "c.toml", "--set", "run.folder=good")
        for name, message in (("gone", "master.h5: data set 'gone' leads to '/x' of gone.h5, which is not there"),
                              ("lost", "data set 'lost' leads to '/no/x' of run.h5, which is not there"),
                              ("circle", "data set 'circle' leads through more than 16 links"),
                              ("pipe", "pipe.h5, which is a FIFO (named pipe), not a file"),
                              ("far_pipe", "pipe.h5, which is a FIFO"),
                              ("device", "leads to /dev/zero, which is a device, not a file")):
            with self.subTest(name):
                for words in (("data", "c.toml"), ("train", "c.toml")):
                    self.fails(3, *words, "--set", f"data.train.samples='{name}'", message=message, timeout=60)
                self.assertFalse(os.path.exists(self.path("run")))
                self.fails(3, "predict", "good", "--files", "master.h5", "--samples", name, "-o", "p.h5", message=message,
                           timeout=60)
                self.fails(3, "coarsen", "master.h5", "--factor", "2", "-o", "coarse", "--samples", name, message=message,
                           timeout=60)
        self.fails(3, "train", "c.toml", "--set", "data.train.samples='gone'", message="gone.h5, which is not there", ranks=2)

    def test_outputs_do_not_replace_what_links_lead_through(self):
        self.mrmf("train", "c.toml")
        for name, target in (("directx", "run.h5"), ("chainx", "runs/run.h5"), ("chainx", "runs/deep/c.h5"),
                             ("virtualx", "runs/source.h5"), ("group/x", "runs/run.h5")):
            before = support.digest(self.path(target))
            self.fails(2, "predict", "run", "--files", "master.h5", "--samples", name, "-o", target, "--overwrite",
                       message=f"{target}: is read by this very command")
            self.assertEqual(support.digest(self.path(target)), before)
        self.fails(2, "init", "master.h5", "-o", "run.h5", "--overwrite", message="run.h5: is read by this very command")


class Copies(support.MrmfTest):
    """What `mrmf coarsen` makes of a file whose data sets have several names."""

    def setUp(self):
        super().setUp()
        self.x, self.y = values(0, 3)
        with h5py.File(self.path("far.h5"), "w") as file:
            file["x"], file["g/y"] = self.x + 1, self.y
            file["g/again"] = h5py.SoftLink("/x")
        with h5py.File(self.path("nexus.h5"), "w") as file:
            file["entry/instrument/detector/data"] = self.x
            file["entry/instrument"].attrs["NX_class"] = "NXinstrument"
            file["entry/sample/strain"] = self.y
            file["entry/data/data"] = file["entry/instrument/detector/data"]
            file["entry/data/strain"] = h5py.SoftLink("/entry/sample/strain")
            file["entry/data/near"] = h5py.SoftLink("data")
            file["entry/nothing"] = h5py.SoftLink("/gone")
            file["latest"] = file["entry"]
            file["entry/around"] = file["/"]
            file.create_group("empty").attrs["why"] = "not yet"
            file["far"] = h5py.ExternalLink("far.h5", "/")
            file["far_x"] = h5py.ExternalLink("far.h5", "/x")
            file["lost"] = h5py.ExternalLink("gone.h5", "/x")
            file["kind"] = np.dtype("f8")
            file["entry/sample/strain"].attrs["axis"] = file["entry/data/data"].ref
            file["entry/sample/pointers"] = np.array([file["far_x"].ref], dtype=h5py.ref_dtype)

    def test_links_stay_links(self):
        said = self.mrmf("coarsen", "nexus.h5", "--factor", "2", "-o", "coarse/deep")
        means = self.x.reshape(64, 16, 2, 2).mean(2)
        os.rename(self.path("far.h5"), self.path("gone-far.h5"))
        with h5py.File(self.path("coarse/deep/nexus.h5")) as file:
            detector, data = file["entry/instrument/detector/data"], file["entry/data/data"]
            self.assertEqual(detector, data)
            np.testing.assert_allclose(data, means, rtol=1e-4, atol=1e-6)
            np.testing.assert_array_equal(file["latest/data/near"], data)
            np.testing.assert_array_equal(file["entry/around/latest/data/strain"], self.y)
            for name, target in (("entry/data/strain", "/entry/sample/strain"), ("entry/data/near", "data"),
                                 ("entry/nothing", "/gone")):
                link = file.get(name, getlink=True)
                self.assertIsInstance(link, h5py.SoftLink)
                self.assertEqual(link.path, target)
            self.assertEqual(file["entry/instrument"].attrs["NX_class"], "NXinstrument")
            self.assertEqual(file["empty"].attrs["why"], "not yet")
            np.testing.assert_allclose(file["far/x"], means + 1, rtol=1e-4, atol=1e-6)
            self.assertEqual(file["far_x"], file["far/x"])
            np.testing.assert_array_equal(file["far/g/again"], file["far/x"])
            np.testing.assert_array_equal(file["far/g/y"], self.y)
            self.assertNotIn("lost", file)
            # A data set is stored once.
            self.assertLess(os.path.getsize(self.path("coarse/deep/nexus.h5")), 5 * means.nbytes)
        for text in ("'lost' leads to '/x' of gone.h5, which is not there", "the type 'kind'",
                     "the references in attribute 'axis' of 'entry/sample/strain'",
                     "the references that 'entry/sample/pointers' holds"):
            self.assertIn(f"coarse/deep/nexus.h5: not in the copy: {text}", said)

    def test_the_copy_is_the_same_on_any_number_of_ranks_and_by_any_name(self):
        for folder, ranks, name in (("a", 0, "entry/data/data"), ("b", 2, "latest/instrument/detector/data"),
                                    ("c", 3, "entry/data/near")):
            self.mrmf("coarsen", "nexus.h5", "--factor", "2", "-o", folder, "--samples", name, ranks=ranks)
            self.assertEqual(support.digest(self.path(f"{folder}/nexus.h5")), support.digest(self.path("a/nexus.h5")))

    def test_every_name_works(self):
        for name, label in (("entry/data/data", "entry/data/strain"), ("latest/data/near", "entry/sample/strain"),
                            ("entry/instrument/detector/data", "entry/around/latest/data/strain")):
            with self.subTest(name):
                self.mrmf("init", "nexus.h5", "--samples", name, "--labels", label, "-o", "i.toml", "--overwrite")
                self.assertIn(f'train = {{ samples = "{name}", labels = "{label}" }}', self.read("i.toml"))
                found = json.loads(self.mrmf("data", "i.toml", "--json"))
                self.assertEqual(found["training"]["samples"] + found["validation"]["samples"], 64)
                self.mrmf("train", "i.toml", "--set", "training.epochs=1", "--overwrite")
                self.mrmf("predict", "runs/i", "-o", "p.h5", "--overwrite")
                shutil.rmtree(self.path("runs"))

    def test_a_data_set_is_one_candidate_however_many_names_it_has(self):
        os.remove(self.path("far.h5"))
        said = self.mrmf("init", "nexus.h5", "-o", "i.toml")
        self.assertIn("'entry/data/data' (64, 32, 2) is taken for samples", said)
        self.assertNotIn("would do as well", said)


if __name__ == "__main__":
    support.main()
