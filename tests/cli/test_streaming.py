"""Data that do not fit in memory, many files, coarse copies, and what may be wrong with them."""
import json
import os
import re
import shutil
import tempfile

import h5py
import numpy as np

import support
from test_cosmology import LAYERS

TRAIN = [f"cubes{i:02d}.h5" for i in range(80)]
CONFIG = f"""
[data]
files = {json.dumps(TRAIN)}
train = {{ samples = "3Dmap", labels = "unitPar" }}
validation = {{ files = ["cubes03.h5", "cubes77.h5"], samples = "3Dmap", labels = "unitPar" }}
duplicates = "allow"
[training]
batch = 4
epochs = 1
[run]
folder = "run"
threads = 1
""" + LAYERS


def samples_in(file):
    return 1 + file % 3


def make_cubes(folder, size=16, **storage):
    """80 files of one to three cubes of counts; their labels."""
    rng = np.random.default_rng(3)
    for i, name in enumerate(TRAIN):
        n = samples_in(i)
        with h5py.File(f"{folder}/{name}", "w") as file:
            cubes = rng.poisson(64, (n, size, size, size, 4)).astype("uint16")
            file.create_dataset("3Dmap", data=cubes, **storage)
            file["unitPar"] = rng.uniform(-1, 1, (n, 4)).astype("float32")
            file["meta.JSON"] = json.dumps({"file": i})


class Streaming(support.MrmfTest):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="mrmf-cubes-")
        cls.addClassCleanup(scratch.cleanup)
        cls.cubes = scratch.name
        make_cubes(cls.cubes)

    def setUp(self):
        super().setUp()
        shutil.copytree(self.cubes, self.folder, dirs_exist_ok=True)
        self.write("config.toml", CONFIG)

    def train(self, run, *overrides, config="config.toml", **options):
        sets = [word for override in overrides for word in ("--set", override)]
        self.output = self.mrmf("train", config, "--set", f"run.folder={run}", *sets, **options)
        return [(e["train_loss"], e["validation_loss"]) for e in self.lines(run + "/epochs.jsonl")]

    def refused(self, code, *overrides, message, **options):
        sets = [word for override in overrides for word in ("--set", override)]
        output = self.fails(code, "train", "config.toml", *sets, message=message, **options)
        self.assertFalse(os.path.exists(self.path("run")), "a run folder was left behind")
        return output

    def damage(self, name, row):
        """Flips bytes in the middle of the chunk that holds a row."""
        with h5py.File(self.path(name), "r") as file:
            chunk = file["3Dmap"].id.get_chunk_info_by_coord((row, 0, 0, 0, 0))
        with open(self.path(name), "r+b") as file:
            file.seek(chunk.byte_offset + chunk.size // 2)
            there = file.read(8)
            file.seek(-8, os.SEEK_CUR)
            file.write(bytes(byte ^ 0x5A for byte in there))

    # A cube takes 32,768 bytes in the files; 159 are there for training and 4 for validation.

    def test_streamed_as_in_memory(self):
        in_memory = self.train("a", "training.epochs=2")
        self.assertIn("in memory", self.output)
        self.assertEqual(self.train("b", "data.load=stream", "data.memory=1.5 MB", "training.epochs=2"), in_memory)
        self.assertIn("uint16 streamed; in memory stay ", self.output)
        self.assertIn(" of 163 samples at [1,1,1]", self.output)
        self.assertIn("independent reads of each rank on 8 threads, contiguous", self.output)
        self.assertEqual(self.train("c", "data.memory=1.5 MB"), in_memory[:1])  # too little for all: streams by itself
        self.assertIn("streamed", self.output)

    def test_streamed_on_ranks_as_in_memory(self):
        words = ("data.shards=4", "training.epochs=2")
        in_memory = self.train("a", *words, ranks=2)
        self.assertEqual(self.train("b", *words, "data.load=stream", "data.memory=3 MB", ranks=2), in_memory)

    def test_shuffled_over_all_samples(self):
        words = ("data.shards=2", "data.shuffle_over=all", 'training.optimizer={name="sgd",learning_rate=0.001}')
        in_memory = self.train("a", *words, "training.epochs=2", ranks=2)
        self.assertIn("in memory", self.output)
        self.assertIn("training samples counted for every rank", self.output)
        self.assertEqual(self.train("b", *words, "data.load=stream", "data.memory=3 MB", "training.epochs=2", ranks=2), in_memory)
        self.assertIn("streamed", self.output)
        # The mini-batches do not depend on the ranks, and they are others than those of shuffled shards.
        np.testing.assert_allclose(self.train("c", *words, "training.batch=8"), in_memory[:1], rtol=1e-5)
        self.assertNotIn("for every rank", self.output)
        self.assertFalse(np.allclose(self.train("d", words[0], words[2], ranks=2), in_memory[:1], rtol=1e-5))
        # Each sample counts once where there is no order to shuffle.
        predictions = []
        for ranks in (0, 2):
            self.mrmf("predict", "a", "--overwrite", "-o", "p.h5", ranks=ranks)
            with h5py.File(self.path("p.h5")) as file:
                predictions.append(file["prediction"][:])
        np.testing.assert_allclose(predictions[1], predictions[0], rtol=1e-5, atol=1e-6)
        numbers = [re.findall(r"\d+\.\d+", self.mrmf("evaluate", "a", ranks=ranks)) for ranks in (0, 2)]
        np.testing.assert_allclose(*np.array(numbers, "f8"), rtol=1e-4, atol=2e-6)

    def test_inspect_knows_what_a_rank_holds(self):
        def megabytes(*words):
            text = self.mrmf("inspect", "config.toml", *words, ranks=2)
            found = re.search(r"data ([\d.]+) (kB|MB)", text)
            return float(found[1]) * {"kB": 1e-3, "MB": 1}[found[2]]
        # Of 159 cubes for training and 4 for validation, 80 and 2 or all and 2.
        cube = (32768 + 16) / 1e6
        self.assertAlmostEqual(megabytes(), 82 * cube, delta=0.6 * cube)
        self.assertAlmostEqual(megabytes("--set", "data.shuffle_over=all"), 161 * cube, delta=0.6 * cube)

    def test_shuffled_over_all_samples_shard_by_shard(self):
        losses = [self.train(f"r{ranks}", "data.shards=4", "data.shuffle_over=all", "run.deterministic=true",
                             f"training.batch={8 // max(1, ranks)}", ranks=ranks) for ranks in (0, 2)]
        self.assertEqual(*losses)

    def test_resolutions_have_three_factors(self):
        self.train("a")
        self.assertEqual(self.lines("a/epochs.jsonl")[0]["resolution"], [1, 1, 1])
        self.assertIn("resolutions = [[1, 1, 1]]", self.read("a/config.toml"))
        self.assertIn("[1,1,2]", self.mrmf("plan", "config.toml", "--set", "method.name=mrt", "--set",
                                           "method.resolutions=[[1,1,2],[1,1,1]]"))

    def test_averaging_at_every_use_gives_the_same_numbers(self):
        method = ("method.name=mrt", "method.resolutions=[[2,2,2],[1,1,1]]")
        in_memory = self.train("a", *method)
        self.assertEqual(self.train("b", *method, "data.averaging=epoch"), in_memory)
        self.assertEqual(self.train("c", *method, "data.load=stream", "data.memory=3 MB"), in_memory)
        self.assertIn("samples at [2,2,2]", self.output)

    def test_evaluate_and_predict_stream(self):
        self.train("a")
        in_memory = self.mrmf("evaluate", "a")
        text = self.read("a/config.toml")
        self.write("a/config.toml", text.replace('load = "auto"', 'load = "stream"\nmemory = 0.0005'))
        self.assertEqual(self.mrmf("evaluate", "a"), in_memory)

    # --- coarse copies

    def test_training_on_a_coarse_copy_is_training_at_the_resolution(self):
        output = self.mrmf("coarsen", *TRAIN, "--factor", "2,2,2", "--output", "coarse")
        self.assertIn("coarse: 159 samples in 80 files", output)
        with h5py.File(self.path("coarse/cubes04.h5"), "r") as copy, h5py.File(self.path("cubes04.h5"), "r") as source:
            fine = source["3Dmap"][:].astype("f8").reshape(2, 8, 2, 8, 2, 8, 2, 4)
            self.assertEqual(copy["3Dmap"].dtype, "float32")
            # Sums of integers, divided by eight: exact.
            self.assertTrue(np.array_equal(copy["3Dmap"][:], fine.mean((2, 4, 6))))
            self.assertTrue(np.array_equal(copy["unitPar"][:], source["unitPar"][:]))
            self.assertEqual(copy["meta.JSON"][()], source["meta.JSON"][()])
            made = json.loads(copy.attrs["coarsened"])
        self.assertEqual(made["source"], "cubes04.h5")
        self.assertEqual(made["source_bytes"], os.path.getsize(self.path("cubes04.h5")))
        self.assertEqual(made["factor"], [2, 2, 2])
        self.assertEqual(made["samples"]["3Dmap"], {"source_shape": [2, 16, 16, 16, 4], "source_type": "uint16"})
        self.assertTrue(made["program"].startswith("mrmf "))
        expected = self.train("a", "method.resolutions=[[2,2,2]]")
        self.write("coarse.toml", CONFIG.replace("cubes", "coarse/cubes"))
        self.assertEqual(self.train("b", config="coarse.toml"), expected)

    def test_coarse_copies_have_the_same_bytes_on_any_number_of_ranks(self):
        for ranks in (0, 3):
            self.mrmf("coarsen", *TRAIN[:3], "--factor", "1,2,4", "--output", f"r{ranks}", ranks=ranks)
        for name in TRAIN[:3]:
            copies = []
            for ranks in (0, 3):
                with open(self.path(f"r{ranks}/{name}"), "rb") as file:
                    copies.append(file.read())
            self.assertTrue(copies[0] == copies[1], name)

    def test_coarse_copies_keep_attributes_and_are_not_replaced(self):
        with h5py.File(self.path(TRAIN[0]), "a") as file:
            file.attrs["made by"] = "a survey"
            file.attrs["sizes"] = np.array([512.0, 128.0])
            file["3Dmap"].attrs["unit"] = "particles"
            file["3Dmap"].attrs["nothing"] = h5py.Empty("f4")
            file.attrs["no words"] = h5py.Empty("S10")
            file["unitPar"].attrs["names"] = ["Omega_m", "sigma_8", "n_s", "H_0"]
        words = ("coarsen", TRAIN[0], "--factor", "2,2,2", "-o", "coarse")
        self.mrmf(*words)
        with h5py.File(self.path("coarse/" + TRAIN[0]), "r") as copy:
            self.assertEqual(copy.attrs["made by"], "a survey")
            self.assertEqual(list(copy.attrs["sizes"]), [512.0, 128.0])
            self.assertEqual(copy["3Dmap"].attrs["unit"], "particles")
            self.assertEqual(copy["3Dmap"].attrs["nothing"], h5py.Empty("f4"))
            self.assertEqual(copy.attrs["no words"], h5py.Empty("S10"))
            self.assertEqual(list(copy["unitPar"].attrs["names"]), ["Omega_m", "sigma_8", "n_s", "H_0"])
        with open(self.path("coarse/" + TRAIN[0]), "rb") as file:
            before = file.read()
        self.fails(2, *words, "--type", "uint16", message=f"coarse/{TRAIN[0]}: is there already; give --overwrite")
        with open(self.path("coarse/" + TRAIN[0]), "rb") as file:
            self.assertTrue(file.read() == before)
        self.mrmf(*words, "--type", "uint16", "--overwrite")
        with h5py.File(self.path("coarse/" + TRAIN[0]), "r") as copy:
            self.assertEqual(copy["3Dmap"].dtype, "uint16")

    def test_rounding_only_when_asked(self):
        self.mrmf("coarsen", TRAIN[0], "--factor", "2,1,1", "--type", "uint16", "-o", "rounded")
        with h5py.File(self.path("rounded/" + TRAIN[0]), "r") as copy, h5py.File(self.path(TRAIN[0]), "r") as source:
            means = source["3Dmap"][:].astype("f8").reshape(1, 8, 2, 16, 16, 4).mean(2)
            self.assertEqual(copy["3Dmap"].dtype, "uint16")
            self.assertTrue(np.array_equal(copy["3Dmap"][:], np.rint(means)))

    def test_what_coarsen_refuses(self):
        self.fails(2, "coarsen", TRAIN[0], "--factor", "3,3,3", "-o", "new", message="resolution 3 does not divide")
        self.fails(2, "coarsen", TRAIN[0], "--factor", "2,x", "-o", "new", message="--factor 2,x")
        self.fails(2, "coarsen", TRAIN[0], "--factor", "2,2,2", "-o", ".", message="is read by this very command")
        self.fails(2, "coarsen", TRAIN[0], "--factor", "2", "-o", "new", message="no data set has samples of 1 axis")
        with h5py.File(self.path("whole.h5"), "w") as file:
            file["cubes"] = np.zeros((2, 4, 4, 4, 1), "int64")
        self.fails(2, "coarsen", "whole.h5", "--factor", "2,2,2", "-o", "new",
                   message="the samples of 'cubes' are 64-bit integer elements, which may be classes; ")
        with h5py.File(self.path("odd.h5"), "w") as file:
            file["cubes"] = np.zeros((2, 4, 4, 4, 1), [("mass", "f4"), ("charge", "f4")])
        self.fails(2, "coarsen", "odd.h5", "--factor", "2,2,2", "-o", "new",
                   message="the samples of 'cubes' are compound elements; ")
        self.fails(3, "coarsen", TRAIN[0], "--factor", "2,2,2", "--samples", "3Dmaps", "-o", "new", message="'3Dmap'")
        self.fails(3, "coarsen", "gone.h5", "--factor", "2,2,2", "-o", "new", message="gone.h5: no such file")
        self.assertFalse(os.path.exists(self.path("new")))

    def test_training_on_a_coarse_copy_of_channels_first(self):
        self.mrmf("coarsen", *TRAIN[:3], "--factor", "2,2,2", "--output", "last")
        for name in TRAIN:
            with h5py.File(self.path(name), "a") as file:
                cubes = np.moveaxis(file["3Dmap"][:], -1, 1)
                del file["3Dmap"]
                file["3Dmap"] = cubes
        self.mrmf("coarsen", *TRAIN, "--factor", "2,2,2", "--axes", "n c z y x", "--output", "coarse", ranks=2)
        for name in TRAIN[:3]:
            with h5py.File(self.path("coarse/" + name), "r") as copy, h5py.File(self.path("last/" + name), "r") as last:
                self.assertTrue(np.array_equal(copy["3Dmap"][:], np.moveaxis(last["3Dmap"][:], -1, 1)), name)
                self.assertEqual(json.loads(copy.attrs["coarsened"])["axes"], "n c z y x")
                self.assertNotIn("axes", json.loads(last.attrs["coarsened"]))
        first = CONFIG.replace("[data]", '[data]\naxes = "n c z y x"')
        self.write("first.toml", first)
        self.write("coarse.toml", first.replace("cubes", "coarse/cubes"))
        expected = self.train("a", "method.resolutions=[[2,2,2]]", config="first.toml")
        self.assertEqual(self.train("b", config="coarse.toml"), expected)

    def test_coarse_copies_by_names_of_the_axes(self):
        x = np.random.default_rng(4).integers(0, 1000, (6, 4, 24, 24)).astype("f4")
        with h5py.File(self.path("c4.h5"), "w") as file:
            file["x"], file["alone"], file["y"] = x, x[:, 0], x[:, 0, 0]

        def refused(*more, message):
            self.fails(2, "coarsen", "c4.h5", "-o", "new", "--factor", *more, message=message)

        def copied(*more):
            self.mrmf("coarsen", "c4.h5", "-o", "new", "--overwrite", "--factor", *more)
            with h5py.File(self.path("new/c4.h5"), "r") as file:
                return [file[name][:] for name in ("x", "alone", "y")]

        refused("2,2", message="c4.h5: data set 'x' of shape (6, 4, 24, 24) looks channels first, and its last axis would be "
                               'taken for channels; give --axes "n c y x", or --axes "n y x c" if the last axis is of channels')
        refused("2,2", "--axes", "n y c x", message="channels lie between positions; store the data set with them first or last")
        refused("2,2", "--axes", "n c z y x", message="names 3 positions, and --factor has 2 numbers")
        refused("2,2", "--axes", "c y x", message='--axes is "c y x": the first axis counts the samples')
        refused("2,2,2", "--axes", "n c z y x", message='no data set has 5 axes, as --axes "n c z y x" names')
        refused("2", "--axes", "n x", message="name the data sets to average with --samples")
        self.assertFalse(os.path.exists(self.path("new")))
        # Sums of whole numbers, divided by two or four: exact.
        alone, y, means = x[:, 0], x[:, 0, 0], x.reshape(6, 4, 12, 2, 12, 2).mean((3, 5))
        last = x.reshape(6, 2, 2, 12, 2, 24).mean((2, 4))
        for options, expected in ((("2,2", "--axes", "n c y x"), (means, alone, y)),
                                  (("2,2", "--axes", "n y x"), (x, means[:, 0], y)),
                                  (("2,2", "--axes", "n y x c"), (last, alone, y)),
                                  (("2", "--axes", "n x", "--samples", "y"), (x, alone, y.reshape(6, 12, 2).mean(2))),
                                  # x is not averaged, as it has other axes: that it looks channels first is no matter.
                                  (("2",), (x, alone.reshape(6, 12, 2, 24).mean(2), y))):
            with self.subTest(options):
                for got, wanted in zip(copied(*options), expected):
                    self.assertTrue(np.array_equal(got, wanted))

    # --- the benchmark

    def best_of_bench_io(self, fast_enough, *words, ranks=0):
        """Figures, speeds the best so far, of the first `mrmf bench io` that makes them fast enough. It takes milliseconds,
        so something else may have the cores for most of them; ten times are enough to find out."""
        best = {}
        for _ in range(10):
            lines = self.mrmf("bench", "io", "config.toml", *words, ranks=ranks).splitlines()
            figures = json.loads(next(line for line in lines if line.startswith("{")))
            speeds = {key: max(figures[key], best.get(key, 0)) for key in figures if key.startswith(("read_", "loader_"))}
            best = {**figures, **speeds}
            if fast_enough(best):
                return best
        self.fail(f"too slow: {best}")

    def test_bench_io(self):
        for ranks in (0, 2):
            # From the disk both are as fast as that is; from memory the loader still writes float32. Far from this lies
            # what goes element by element, at a hundredth.
            figures = self.best_of_bench_io(
                lambda best: best["loader_cold"] > 0.05 * best["read_cold"] and best["loader_warm"] > 0.03 * best["read_warm"],
                ranks=ranks)
            self.assertEqual(figures["sample_bytes"], 159 * 32768)
            self.assertEqual(figures["file_bytes"], sum(os.path.getsize(self.path(name)) for name in TRAIN))

    def test_bench_io_of_chunks_of_one_sample(self):
        make_cubes(self.folder, chunks=(1, 16, 16, 16, 4), compression="gzip", compression_opts=1)
        # Unpacking takes a few ns a byte; element by element it was 0.005 GB/s.
        figures = self.best_of_bench_io(lambda best: best["loader_warm"] > 0.02, "--set", "data.memory=4 MB")
        self.assertLess(figures["file_bytes"], figures["sample_bytes"])

    # --- bad input

    def test_one_file_of_80_is_missing(self):
        os.remove(self.path(TRAIN[41]))
        self.refused(3, message=TRAIN[41] + ": no such file")
        self.refused(3, "data.load=stream", message=TRAIN[41] + ": no such file", ranks=2)

    def test_a_file_with_fewer_labels(self):
        with h5py.File(self.path(TRAIN[5]), "a") as file:
            del file["unitPar"]
            file["unitPar"] = np.zeros((2, 4), "float32")
        self.refused(3, message=TRAIN[5] + ": data set 'unitPar' has 2 rows for 3 samples")

    def test_a_file_of_other_cubes(self):
        with h5py.File(self.path(TRAIN[9]), "a") as file:
            del file["3Dmap"]
            file["3Dmap"] = np.zeros((1, 8, 8, 8, 4), "uint16")
        self.refused(3, message=TRAIN[9] + ": data set '3Dmap' has samples of 8x8x8x4, but cubes00.h5 has 16x16x16x4")

    def test_corrupt_chunks(self):
        for storage in ({"fletcher32": True}, {"compression": "gzip", "shuffle": True}):
            make_cubes(self.folder, chunks=(1, 16, 16, 16, 4), **storage)
            self.damage(TRAIN[50], 1)
            where = TRAIN[50] + ": data set '3Dmap' cannot be read from row 1"
            self.assertIn("copy the file or make it again", self.refused(3, message=where))
            self.fails(3, "train", "config.toml", "--set", "data.load=stream", "--set", "run.folder=s", "--overwrite",
                       message=where, ranks=2 if "shuffle" in storage else 0)

    def test_more_ranks_than_files_but_not_than_samples(self):
        # Files of one and of three samples; three for validation leave one rank without.
        few = ("data.files=" + json.dumps([TRAIN[0], TRAIN[2]]), "data.validation.files=" + json.dumps([TRAIN[2]]),
               "data.duplicates=allow", "training.batch=1", "training.epochs=1")
        for load in ("memory", "stream"):
            self.assertEqual(len(self.train(load, *few, f"data.load={load}", ranks=4)), 1)
        self.refused(2, *few, 'data.files=["cubes02.h5"]', message="3 samples cannot be cut into 4 shards", ranks=4)

    def test_a_resolution_that_leaves_nothing(self):
        self.refused(2, "method.name=mrt", "method.resolutions=[[8,8,8],[1,1,1]]", message="pool2")

    def test_too_little_memory(self):
        self.refused(2, "data.memory=0.0002", message="data.memory gives 0.2 MB (0.2 MB per node, 1 rank on it), but "
                     "labels, one batch and the next need 0.3")
        self.refused(2, "data.memory=1 MB", "data.load=memory", message="all samples at once")
        self.refused(2, "data.memory=lots", message='data.memory is "lots"; it must be a number of GB above 0')


if __name__ == "__main__":
    support.main()
