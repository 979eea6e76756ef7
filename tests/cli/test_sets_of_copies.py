"""Coarse copies of several files at once: all of them or none, and samples of one set where each file or group is one."""
import glob
import os
import resource
import shutil
import signal
import subprocess

import h5py
import numpy as np

import support

UNLIMITED = resource.RLIM_INFINITY


class SetsOfCopies(support.MrmfTest):
    def sample(self, path, shape=(8, 8, 2), units="K", name="density", fill=1.0):
        os.makedirs(os.path.dirname(self.path(path)) or ".", exist_ok=True)
        with h5py.File(self.path(path), "a") as file:
            file[name] = np.full(shape, fill, "f4")
            file[name].attrs["units"] = units

    def rows(self, path, fill=1.0, count=8):
        with h5py.File(self.path(path), "w") as file:
            file["x"] = np.full((count, 16, 1), fill, "f4")
            file["y"] = np.arange(float(count))

    def contents(self, folder):
        """Bytes and times of all files in a folder; None where it is not there."""
        if not os.path.exists(self.path(folder)):
            return None
        return {name: (support.digest(self.path(f"{folder}/{name}")), os.stat(self.path(f"{folder}/{name}")).st_mtime_ns)
                for name in sorted(os.listdir(self.path(folder)))}

    def coarsen(self, files, *words, factor="2", limit=None, ranks=0):
        """The finished process, with a limit on the bytes of a file."""
        prepare = limit and (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, UNLIMITED)))
        return subprocess.run(support.command(["coarsen", *files, "--factor", factor, "-o", "coarse", *words], ranks), cwd=self.folder,
                              capture_output=True, text=True, env=support.environment(), preexec_fn=prepare, timeout=300)

    def fails_and_leaves(self, files, message, *words, code=3, **options):
        """One line, and the folder of copies as it was."""
        before = self.contents("coarse")
        done = self.coarsen(files, *words, **options)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.startswith("mrmf: ")]
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertIn(message, lines[0])
        self.assertEqual(done.stdout if options.get("ranks", 0) == 0 else "", "")
        self.assertEqual(self.contents("coarse"), before)

    def test_one_of_many_samples_that_differs(self):
        """As training says it: which file, and both values."""
        for what, other, message in (
                ("shape", {"shape": (8, 4, 2)}, "f/s2.h5: data set 'density' has samples of 8x4x2, but f/s0.h5 has 8x8x2"),
                ("channels", {"shape": (8, 8, 3)}, "f/s2.h5: data set 'density' has samples of 8x8x3, but f/s0.h5 has 8x8x2"),
                ("units", {"units": "degC"}, "f/s2.h5: data set 'density' has units of degC, but f/s0.h5 has K")):
            shutil.rmtree(self.path("f"), ignore_errors=True)
            for i in range(4):
                self.sample(f"f/s{i}.h5", **(other if i == 2 else {}))
            files = [f"f/s{i}.h5" for i in range(4)]
            for ranks, words in ((0, []), (2, ["--samples", "density"])):
                with self.subTest(what, ranks=ranks):
                    self.fails_and_leaves(files, message, "--rows", "files", *words, factor="2,2", ranks=ranks)
                    self.assertIsNone(self.contents("coarse"))

    def test_one_of_another_name(self):
        for i in range(3):
            self.sample(f"f/s{i}.h5", name="densty" if i == 2 else "density")
        self.fails_and_leaves([f"f/s{i}.h5" for i in range(3)], "f/s2.h5: no data set 'density'; there are densty", "--rows", "files", factor="2,2")
        self.sample("f/s0.h5", name="debug")  # more than others have
        self.sample("f/s2.h5", name="density")
        self.assertEqual(self.coarsen([f"f/s{i}.h5" for i in range(3)], "--rows", "files", factor="2,2").returncode, 0)

    def test_groups_beside_each_other(self):
        for what, other, message in (
                ("shape", {"shape": (8, 4, 2)}, "g.h5: data set 'sim_2/density' has samples of 8x4x2, but g.h5/sim_0 has 8x8x2"),
                ("units", {"units": "degC"}, "g.h5: data set 'sim_2/density' has units of degC, but g.h5/sim_0 has K")):
            with h5py.File(self.path("g.h5"), "w"):
                pass
            for i in range(4):
                self.sample("g.h5", name=f"sim_{i}/density", **(other if i == 2 else {}))
            self.fails(3, "coarsen", "g.h5", "--rows", "groups", "--samples", "density", "--factor", "2,2", "-o", "coarse", message=message)
            self.assertIsNone(self.contents("coarse"))
        with h5py.File(self.path("n.h5"), "w"):  # of two sizes, in groups of their own: two sets
            pass
        for i in range(4):
            self.sample("n.h5", name=f"{'fine' if i < 2 else 'rough'}/sim_{i}/density", shape=(8, 8, 1) if i < 2 else (4, 4, 1))
        self.mrmf("coarsen", "n.h5", "--rows", "groups", "--samples", "density", "--factor", "2,2", "-o", "coarse")

    def test_units_that_some_lack(self):
        for i, units in enumerate(("", "K", "K")):
            self.sample(f"f/s{i}.h5", units=units)
        self.mrmf("coarsen", *(f"f/s{i}.h5" for i in range(3)), "--rows", "files", "--factor", "2,2", "-o", "coarse")

    def late_failure(self, name):
        """A file whose headers are good, and of which a number is not."""
        self.rows(name)
        with h5py.File(self.path(name), "r+") as file:
            file["x"][5, 3] = np.nan

    def test_a_later_file_that_fails_leaves_earlier_copies_as_they_were(self):
        for i in range(3):
            self.rows(f"p{i}.h5", fill=i)
        self.assertEqual(self.coarsen(["p0.h5", "p1.h5", "p2.h5"]).returncode, 0)
        for i in range(2):
            self.rows(f"p{i}.h5", fill=10 + i)
        self.late_failure("p2.h5")
        for ranks in (0, 2):
            self.fails_and_leaves(["p0.h5", "p1.h5", "p2.h5"], "p2.h5: data set 'x', row 5 holds NaN", "--overwrite", ranks=ranks)
        self.rows("p2.h5", fill=12)
        self.assertEqual(self.coarsen(["p0.h5", "p1.h5", "p2.h5"], "--overwrite").returncode, 0)
        for i in range(3):
            with h5py.File(self.path(f"coarse/p{i}.h5")) as file:
                np.testing.assert_array_equal(file["x"], np.full((8, 8, 1), 10.0 + i))

    def test_a_new_set_that_fails_leaves_no_folder(self):
        self.rows("p0.h5")
        self.late_failure("p1.h5")
        self.fails_and_leaves(["p0.h5", "p1.h5"], "p1.h5: data set 'x', row 5 holds NaN")
        self.assertIsNone(self.contents("coarse"))

    def test_an_input_that_ends_early(self):
        for i in range(2):
            self.rows(f"p{i}.h5")
        self.assertEqual(self.coarsen(["p0.h5", "p1.h5"]).returncode, 0)
        for size in (900, os.path.getsize(self.path("p1.h5")) - 10):
            self.rows("p1.h5")
            os.truncate(self.path("p1.h5"), size)
            self.fails_and_leaves(["p0.h5", "p1.h5"], "p1.h5: truncated: ", "--overwrite")

    def test_a_chunk_that_cannot_be_unpacked(self):
        """The headers say that all is there; the disk has other bytes."""
        self.rows("p0.h5")
        with h5py.File(self.path("p1.h5"), "w") as file:
            file.create_dataset("x", data=np.random.default_rng(0).normal(0, 1, (8, 16, 1)).astype("f4"), chunks=(4, 16, 1), compression="gzip")
            place = file["x"].id.get_chunk_info(1)
        with open(self.path("p1.h5"), "r+b") as file:
            file.seek(place.byte_offset)
            file.write(b"\xff" * place.size)
        for ranks in (0, 2):
            self.fails_and_leaves(["p0.h5", "p1.h5"], "p1.h5: data set 'x'", ranks=ranks)

    def test_no_room_for_a_later_copy(self):
        self.rows("p0.h5", count=4)
        self.rows("p1.h5", count=4096)
        self.assertEqual(self.coarsen(["p0.h5"]).returncode, 0)
        self.fails_and_leaves(["p0.h5", "p1.h5"], "p1.h5: needs ", "--overwrite", limit=65536)
        for limit in (1, 700, 2000):  # in the midst of writing
            self.fails_and_leaves(["p0.h5"], "p0.h5: ", "--overwrite", limit=limit)

    def test_a_signal_leaves_none_of_many(self):
        """More files at once than a handful: all that are finished, too, wait for the last."""
        names = []
        for i in range(40):
            self.rows(f"p{i:02}.h5")
            names.append(f"p{i:02}.h5")
        self.rows("z.h5", count=60000)
        names.append("z.h5")

        def attempt():
            process = self.launch("coarsen", *names, "--factor", "2", "-o", "coarse", "--threads", "1")
            support.wait_while(process, lambda: not os.path.exists(self.path("coarse")) or len(os.listdir(self.path("coarse"))) < 20)
            process.send_signal(signal.SIGTERM)
            output = process.communicate()[0]
            return process.returncode, output
        code, output = self.interrupted("coarse", attempt)
        self.assertEqual(code, -signal.SIGTERM, output)
        self.assertEqual(glob.glob(self.path("coarse/*")), [])


if __name__ == "__main__":
    support.main()
