"""Labels, columns and names that are other than they were taken for: each is one line that says what they are, and what to do."""
import contextlib
import os
import re
import signal
import subprocess

import h5py
import numpy as np

import support

N = 60


class ForeignLabels(support.MrmfTest):
    def setUp(self):
        super().setUp()
        self.kinds = np.random.default_rng(4).integers(0, 3, N)

    def make(self, labels, **more):
        with h5py.File(self.path("d.h5"), "w") as file:
            file["x"] = np.random.default_rng(0).normal(0, 1, (N, 8, 2)).astype("f4")
            for name, values in {"y": labels, **more}.items():
                if np.asarray(values).dtype.kind in "OU":
                    file.create_dataset(name, data=list(values), dtype=h5py.string_dtype())
                else:
                    file[name] = values

    def config(self, loss="cross_entropy", more="", units=3, split=None):
        text = support.rows_config("flatten", f"dense units={units}", files=("d.h5",), split=split)
        self.write("c.toml", text.replace("epochs = 1", f'epochs = 1\nloss = "{loss}"\n{more}', 1))

    def both_fail(self, message, code=3):
        for command, ranks in (("data", 0), ("train", 0), ("train", 2)):
            self.fails(code, command, "c.toml", message=message, ranks=ranks)

    def test_words_that_are_learned_as_numbers(self):
        self.make(np.array(["ash", "oak", "elm"])[self.kinds])
        self.config(loss="mse", units=1)
        self.both_fail('holds words; as classes they are learned with training.loss = "cross_entropy" and training.class_values')
        self.config(more='class_values = ["ash", "oak", "elm"]')
        self.assertIn("labels 'y': words, each 1\n", self.mrmf("data", "c.toml"))

    def test_rows_of_numbers_that_are_no_classes(self):
        soft = np.random.default_rng(0).uniform(0, 1, (N, 4)).astype("f4")
        for labels, width in ((soft, 4), ((np.eye(3)[self.kinds] * 255).astype("u1"), 3)):
            self.make(labels)
            self.config(units=width)
            told = f"rows of {width} numbers are one class per sample where they are one-hot, with a single 1 and else 0, and these are not"
            self.assertIn(told, self.mrmf("data", "c.toml"))
            self.fails(2, "train", "c.toml", message=told)

    def test_nearly_one_hot(self):
        for change, kind in (([.5, .5, 0], "f4"), ([1, 1, 0], "i4"), ([0, 0, 0], "u1")):
            labels = np.eye(3)[self.kinds].astype(kind)
            labels[40] = change
            self.make(labels)
            output = self.mrmf("init", "d.h5", "-o", "i.toml", "--overwrite")
            self.assertIn("59 of 60 rows have a single 1 and else 0, as one-hot classes do, and one such as row 40 not", output)
        self.make((np.random.default_rng(0).uniform(0, 1, (N, 3)) > .5).astype("u1"))
        self.assertNotIn("one-hot", self.mrmf("init", "d.h5", "-o", "i.toml", "--overwrite"))

    def test_a_column_with_missing_marks(self):
        mark = np.zeros(N, "i1")
        mark[40:], mark[3] = 1, -1
        self.make(np.arange(N) / N, mark=mark)
        with h5py.File(self.path("d.h5"), "r+") as file:
            file["mark"].attrs["_FillValue"] = np.int8(-1)
        self.config(loss="mse", units=1, split='{ column = "mark" }')
        self.both_fail("data set 'mark', row 3 holds no number, as its attributes say (int8: -1 is missing); data.split.column wants")

    def test_three_roles(self):
        roles = np.repeat([0, 1, 2], N // 3)
        self.make(np.arange(N) / N, role=roles, fold=roles)
        self.config(loss="mse", units=1, split='{ column = "role" }')
        self.both_fail("data.split.validation = [1]")  # the last tests
        self.config(loss="mse", units=1, split='{ column = "fold" }')
        self.both_fail("data.split.validation = [2]")

    def test_several_columns_that_split(self):
        words = np.array(["train", "val", "test"])[np.repeat([0, 1, 2], N // 3)]
        self.make(np.arange(N) / N, part=words, split=words, fold=np.arange(N) % 5)
        output = self.mrmf("init", "d.h5", "-o", "i.toml")
        self.assertIn("'part' is taken for the split; 'fold', 'split' may say what rows are for, too", output)
        self.assertIn('column = "part"', self.read("i.toml"))

    def test_arrays_without_a_mean(self):
        with h5py.File(self.path("a.h5"), "w") as file:
            file["x"] = np.ones((8, 8, 2), "f4")
            file["words"] = np.array([b"ab"] * 8)
            file.create_dataset("ragged", (8,), dtype=h5py.vlen_dtype("f4"))
            file["opaque"] = np.frombuffer(b"\1" * 8 * 8 * 2 * 4, "V4").reshape(8, 8, 2)
            file["single"], file["line"] = np.float32(3), np.ones(8, "f4")
        for name, message in (("words", "holds string elements, which have no mean"), ("ragged", "holds variable-length elements"),
                              ("opaque", "holds opaque elements"), ("single", "has shape (), and no axis to average"),
                              ("line", "has shape (8), and no axis to average")):
            output = self.fails(3, "coarsen", "a.h5", "--factor", "2", "--samples", name, "-o", "co", message=f"a.h5: data set '{name}' {message}")
            self.assertNotIn("-1", output)
            self.assertFalse(os.path.exists(self.path("co")))

    def test_an_empty_name(self):
        self.make(np.arange(N) / N)
        for name in ("", "  "):
            self.write("c.toml", support.rows_config("flatten", "dense units=1", files=("d.h5", name)))
            for command in ("data", "train", "plan"):
                self.fails(2, command, "c.toml", message="a name is empty; name a file, or leave it out")


class Started(support.MrmfTest):
    """By a batch system, in its first moments."""

    def test_what_only_prints_does_so_under_any_launcher(self):
        variables = support.environment() | {"PMI_SIZE": "4", "PMI_RANK": "0"}
        for words in (["--version"], ["--help"], ["help", "train"], []):
            done = subprocess.run([support.MRMF, *words], cwd=self.folder, capture_output=True, text=True, env=variables)
            self.assertNotIn("PMI_SIZE", done.stdout + done.stderr, words)
        self.assertIn("mrmf ", subprocess.run([support.MRMF, "--version"], capture_output=True, text=True, env=variables).stdout)
        done = subprocess.run([support.MRMF, "data", "c.toml"], cwd=self.folder, capture_output=True, text=True, env=variables)
        self.assertEqual(done.returncode, 2)
        self.assertIn("PMI_SIZE says that 4 ranks were started and MPI sees 1 of them, so each would do all of the work by itself", done.stderr)
        self.assertNotIn("write", done.stderr)

    def task(self, rank, log=None, **variables):
        """The exit code of a task of four by Slurm, and what it says; into a file of its own, where one is given."""
        with open(log, "w") if log else contextlib.nullcontext(subprocess.PIPE) as errors:
            done = subprocess.run([support.MRMF, "plan", "none.toml"], cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=errors,
                                  env=support.environment() | {"SLURM_NTASKS": "4", "SLURM_PROCID": str(rank)} | variables)
        said = self.read(log) if log else done.stderr
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        return said.splitlines()

    def test_tasks_of_slurm_that_do_not_see_each_other(self):
        whole, short = "mrmf: error: srun started 4 tasks and MPI sees 1 of them", "mrmf: error: task {} of 4 by srun: MPI sees this one alone"
        step = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4"}
        log = self.path("task.log")
        for variables in ({}, {"SLURM_STEP_ID": "0"}, {"SLURM_STEP_NUM_TASKS": "4"}):
            with self.subTest(variables):
                alone, first, second = (self.task(rank, **variables) for rank in (0, 1, 2))
                self.assertEqual([len(said) for said in (alone, first, second)], [1, 1, 1])
                self.assertIn("none.toml: there is no such file", alone[0])  # as a batch script, or a shell of salloc
                self.assertIn(whole, first[0])
                self.assertIn(short.format(2), second[0])
        self.assertIn(whole, self.task(0, **step)[0])
        self.assertEqual(self.task(2, **step), [])  # beside the first one's line
        self.assertIn(short.format(2), self.task(2, log, **step)[0])  # in a log of its own
        self.assertIn("none.toml", self.task(2, SLURM_STEP_NUM_TASKS="1")[0])  # to work apart

    def test_a_signal_before_mpi_is_there(self):
        """As soon as the program handles it, which is before MPI starts; what the system's loader does before is another matter."""
        for number in (signal.SIGHUP, signal.SIGXCPU, signal.SIGUSR2):
            os.makedirs(self.path("run"), exist_ok=True)
            process = self.launch("train", "none.toml")
            while process.poll() is None and not self.handles(process, number):
                pass
            process.send_signal(number)
            output = process.communicate()[0]
            if process.returncode == 2:  # it was faster than this
                self.assertIn("none.toml", output)
                continue
            self.assertEqual(process.returncode, -number, output)
            self.assertIn(f"mrmf: {number.name} before training began: ended; nothing is lost, run the same command again", output)

    @staticmethod
    def handles(process, number):
        try:
            with open(f"/proc/{process.pid}/status") as file:
                caught = re.search(r"^SigCgt:\t(\w+)", file.read(), re.M)
            return caught is not None and int(caught[1], 16) >> (number - 1) & 1
        except OSError:
            return False


if __name__ == "__main__":
    support.main()
