"""mrmf simulate cosmology: the same bytes on any number of ranks, threads and ranks per cube, the published schema, physics in the
counts, bad input refused."""
import json
import os

import h5py
import numpy as np

import support

FIRST = {"train": "PeterA_2019_05_4parE-rec102.h5", "validation": "PeterA_2019_05_4parE-rec53.h5",
         "test": "PeterA_2019_05_4parE-rec66.h5"}


def digests(folder):
    found = {}
    for name in sorted(os.listdir(folder)):
        found[name] = support.digest(os.path.join(folder, name))
    found.pop("data.toml")  # holds the folder's name
    return found


class SimulateCosmology(support.MrmfTest):
    def make(self, folder, *words, samples=11, size=8, seed=3, threads=1, ranks=0):
        output = self.mrmf("simulate", "cosmology", "--samples", str(samples), "--size", str(size), "--seed", str(seed),
                           "--box", "256", "--threads", str(threads), "--output", folder, *words, ranks=ranks)
        self.assertIn("cubes/s", output)
        return self.path(folder)

    def test_same_seed_same_bytes(self):
        words = ("--per-file", "5", "--mesh", "2")
        first = digests(self.make("one", *words))
        self.assertEqual(len(first), 4)  # 9 training samples are two files
        self.assertEqual(digests(self.make("again", *words)), first)
        self.assertEqual(digests(self.make("threads", *words, threads=3)), first)
        for ranks in (2, 3):
            self.assertEqual(digests(self.make(f"ranks{ranks}", *words, ranks=ranks)), first)
        for ranks, sharing in ((2, 2), (4, 2)):
            folder = self.make(f"{ranks}by{sharing}", *words, "--ranks-per-cube", str(sharing), ranks=ranks)
            self.assertEqual(digests(folder), first)
        other = digests(self.make("other", *words, seed=4))
        self.assertTrue(all(other[name] != first[name] for name in first))

    def test_schema(self):
        folder = self.make("cubes", samples=20, size=8)
        self.assertEqual(sorted(os.listdir(folder)), sorted([*FIRST.values(), "data.toml"]))
        seen = set()
        for split, rows in (("train", 16), ("validation", 2), ("test", 2)):
            with h5py.File(os.path.join(folder, FIRST[split])) as file:
                cubes, labels = file["3Dmap"], file["unitPar"]
                self.assertEqual((cubes.shape, cubes.dtype), ((rows, 8, 8, 8, 4), np.uint16))
                self.assertEqual((labels.shape, labels.dtype), ((rows, 4), np.float32))
                self.assertIsNone(cubes.chunks)
                self.assertLessEqual(np.abs(labels[:]).max(), 1)
                # Every particle is in some voxel of every channel: 2^3 per voxel.
                np.testing.assert_array_equal(cubes[:].sum(axis=(1, 2, 3), dtype=np.int64), 16**3)
                np.testing.assert_allclose(file["physPar"][:], np.array([0.3, 0.8, 0.96, 70]) * (1 + 0.1 * labels[:]),
                                           rtol=1e-6)
                np.testing.assert_array_equal(file["redshifts"][:], [0, 0.5, 1.5, 3])
                self.assertEqual(file["namePar"].asstr()[0], "Omega_m,sigma_8,N_spec,H_0")
                meta = json.loads(file["meta.JSON"].asstr()[0])
                self.assertEqual((meta["seed"], meta["method"], meta["steps"]), (3, "cola", 10))
                seen.update(map(bytes, labels[:]))
        self.assertEqual(len(seen), 20)

    def test_power_of_the_counts_grows_as_the_linear_theory(self):
        # Waves of 90 to 256 Mpc/h. D at redshifts 0.5, 1.5 and 3 for Omega_m = 0.3, from the growth integral; drawn
        # Omega_m move it by at most 1.2 %, the rest of the 4 % is what small scales do to long waves in ten boxes.
        for method in ("lpt", "cola"):
            folder = self.make(method, "--method", method, samples=10, size=32, threads=2)
            with h5py.File(os.path.join(folder, FIRST["train"])) as file:
                cubes = file["3Dmap"][:].astype("f8")
            power = np.abs(np.fft.fftn(cubes, axes=(1, 2, 3))) ** 2
            k = np.fft.fftfreq(32) * 32
            square = k[:, None, None] ** 2 + k[None, :, None] ** 2 + k[None, None, :] ** 2
            long = (square > 0) & (square < 9)
            growth = np.sqrt(power[:, long, :].sum(axis=(0, 1)) / power[:, long, 0].sum())
            np.testing.assert_allclose(growth, [1, 0.773, 0.500, 0.319], rtol=0.04, err_msg=method)

    def test_the_files_train(self):
        self.make("cubes", samples=12)
        self.write("config.toml", self.read("cubes/data.toml") + """
[model]
layers = [ { type = "batch_norm" }, { type = "conv", filters = 2, kernel = [3, 3, 3] }, { type = "flatten" },
           { type = "dense", units = 4 } ]
[training]
optimizer = { name = "adam", learning_rate = 1e-3 }
batch = 5
epochs = 1
[run]
folder = "run"
threads = 1
""")
        self.mrmf("train", "config.toml")
        self.assertEqual(self.lines("run/epochs.jsonl")[0]["samples"], 10)

    def test_bad_arguments_are_refused_and_nothing_is_written(self):
        good = {"--samples": "10", "--size": "8", "--output": "refused"}
        for key, value, word in (
            ("--samples", "2", "at least 3"),
            ("--samples", "10241", "64 were published"),
            ("--size", "12", "power of two"),
            ("--size", "2", "power of two"),
            ("--size", "2048", "power of two"),
            ("--box", "-1", "box"),
            ("--box", "nan", "box"),
            ("--particles", "3", "1, 2, 4 or 8"),
            ("--particles", "0", "1, 2, 4 or 8"),
            ("--mesh", "5", "1, 2, 3 or 4"),
            ("--method", "pm", "neither lpt nor cola"),
            ("--steps", "0", "time steps"),
            ("--per-file", "129", "samples per file"),
            ("--threads", "-1", "threads"),
            ("--ranks-per-cube", "0", "0 ranks per cube"),
            ("--ranks-per-cube", "3", "3 ranks per cube cannot share 8 planes"),
            ("--ranks-per-cube", "16", "a power of two up to 8"),
            ("--ranks-per-cube", "2", "start a multiple of 2 ranks"),
            ("--seed", "x", "seed"),
        ):
            words = [text for pair in {**good, key: value}.items() for text in pair]
            self.fails(2, "simulate", "cosmology", *words, message=word)
            self.assertEqual(os.listdir(self.folder), [])
        sharing = ("simulate", "cosmology", "--size", "8", "--output", "refused", "--ranks-per-cube", "2")
        self.fails(2, *sharing, ranks=3, message="3 ranks are not whole groups of 2")
        self.fails(2, *sharing, "--threads", "2", message="2 threads per rank")
        self.fails(2, "simulate", "cosmology", "--size", "1024", "--particles", "2", "--output", "refused",
                   "--ranks-per-cube", "2", message="use more ranks per cube, at least 4")
        self.assertEqual(os.listdir(self.folder), [])
        self.fails(2, "simulate", "cosmology", "--size", "512", "--particles", "8", "--output", "refused", "--threads",
                   "100", message="GiB")
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_folder_that_cannot_be_used_gets_one_line(self):
        self.write("file", "")
        self.fails(3, "simulate", "cosmology", "--size", "8", "--output", "file/cubes", message="file/cubes")
        folder = self.make("cubes")
        before = digests(folder)
        self.fails(2, "simulate", "cosmology", "--size", "8", "--output", "cubes", message="data.toml: is there already")
        self.assertEqual(digests(folder), before)


if __name__ == "__main__":
    support.main()
