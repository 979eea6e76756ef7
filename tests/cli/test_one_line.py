"""Errors that every rank has are one line, with the right exit code and without MPI_Abort. MRMF_ONE_LINE=all tries every
error on 2 and on 3 ranks, on a machine that is busy with other work; otherwise they take turns."""
import os
import shutil
import subprocess
import sys

import h5py
import numpy as np

import support

SPINNING = 4
EVERYTHING = os.environ.get("MRMF_ONE_LINE") == "all"
BASE = [("epochs = 3", "epochs = 1")]


def train(*settings, config="config.toml"):
    return ["train", config, *(word for one in settings for word in ("--set", one))]


# Exit code, what the line says, the command.
ERRORS = [
    (2, "there is no subcommand 'trian'", ["trian", "config.toml"]),
    (2, "argument was not expected: --no-such-option", ["plan", "config.toml", "--no-such-option"]),
    (2, "none.toml: there is no such file", train(config="none.toml")),
    (2, "syntax.toml:1:6: not valid TOML", train(config="syntax.toml")),
    (2, "unknown key 'training.bacth'", train("training.bacth=4")),
    (2, "training.batch is 0; it must be an integer", train("training.batch=0")),
    (2, "training.optimizer.name is \"adma\"", train('training.optimizer.name="adma"')),
    (2, "model.layers[0].type is \"convolution\"", train('model.layers=[{ type = "convolution" }]')),
    (2, "conv1: window 65 is larger than its input", train('model.layers=[{ type = "conv", filters = 2, kernel = 65 }, { type = "flatten" }, { type = "dense", units = 2 }]')),
    (2, "the model has 5 outputs and the data 2 labels per sample", train('model.layers=[{ type = "flatten" }, { type = "dense", units = 5 }]')),
    (2, "run.grid = [7] shares each sample among 7 ranks", train("run.grid=[7]")),
    (2, "data.shards = 5 is not a multiple of the ", train("data.shards=5")),
    (2, "method.team_shares has 4 entries", train("method.team_shares=[1, 1, 1, 1]")),
    (2, "method.resolutions has [4] after [2]", train('method.name="mrmf"', "method.resolutions=[[2], [4]]")),
    (3, "in-the-way: cannot be made", train("run.folder=in-the-way")),
    (2, "run.folder: full is not empty and not a run's", train("run.folder=full")),
    (2, "run.folder: run holds a finished run", train()),
    (3, "none.h5: no such file", train('data.files=["none.h5"]')),
    (2, "data.files: no file matches no*.h5", train('data.files=["no*.h5"]')),
    (3, "truncated.h5: truncated: ", train('data.files=["truncated.h5"]')),
    (3, "empty.h5: is empty (0 bytes)", train('data.files=["empty.h5"]')),
    (3, "notes.txt: not an HDF5 file", train('data.files=["notes.txt"]')),
    (3, "data.h5: no data set 'frames'", train('data.train.samples="frames"', "run.folder=new")),
    (3, "data.h5: no data set 'labels'", train('data.train.labels="labels"', "run.folder=new")),
    (3, "few.h5: data set 'train_unitStar_par' has 95 rows for 96 samples", train('data.files=["few.h5"]', "run.folder=new")),
    (3, "nan.h5: data set 'train_frames', row 95 holds NaN", train('data.files=["nan.h5"]', "run.folder=new")),
    (3, "damaged.h5: damaged or cut short", ["evaluate", "damaged.h5", "--files", "data.h5"]),
    (3, "no-run: not a run folder", ["evaluate", "no-run"]),
    (2, "data.h5: is read by this very command", ["predict", "run", "-o", "data.h5"]),
    (3, "parameters/batch_norm1/gamma has another shape", ["predict", "run", "--files", "short.h5", "-o", "out.h5"]),
    (2, "--factor 0: give one to three integers", ["coarsen", "data.h5", "--factor", "0", "-o", "out"]),
    (3, "no-run: no finished run here", ["compare", "no-run"]),
    (4, "the training loss is nan in stage 1", train("training.optimizer.learning_rate=1e30", "run.folder=diverges")),
]


class OneLine(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"))
        support.make_data(self.path("short.h5"), length=60)
        self.config(replace=BASE)
        self.mrmf("train", "config.toml")
        self.damage()
        if EVERYTHING:
            self.spin()

    def damage(self):
        self.write("syntax.toml", "[data\nfiles = ")
        self.write("in-the-way", "a file")
        self.write("notes.txt", "not HDF5\n" * 100)
        self.write("empty.h5", "")
        os.mkdir(self.path("full"))
        self.write("full/mine.txt", "of a user")
        os.mkdir(self.path("no-run"))
        with open(self.path("data.h5"), "rb") as file:
            data = file.read()
        with open(self.path("truncated.h5"), "wb") as file:
            file.write(data[:len(data) // 2])
        shutil.copy(self.path("run/checkpoints/final.h5"), self.path("damaged.h5"))
        with open(self.path("damaged.h5"), "r+b") as file:
            file.seek(os.path.getsize(file.name) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        for name, change in (("few.h5", lambda file: self.replace(file, "train_unitStar_par", lambda y: y[:-1])),
                             ("nan.h5", lambda file: self.replace(file, "train_frames", self.with_nan))):
            shutil.copy(self.path("data.h5"), self.path(name))
            with h5py.File(self.path(name), "r+") as file:
                change(file)

    @staticmethod
    def replace(file, name, change):
        values = change(file[name][()])
        del file[name]
        file[name] = values

    @staticmethod
    def with_nan(values):
        values[-1, 7] = np.nan
        return values

    def spin(self):
        """Other work, as long as the test runs."""
        for _ in range(SPINNING):
            process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)

    @staticmethod
    def said(stderr):
        """The lines that are not mpirun's: its texts stand between lines of dashes."""
        lines, inside = [], False
        for line in stderr.splitlines():
            if line.startswith("-----"):
                inside = not inside
            elif not inside and line.strip():
                lines.append(line)
        return lines

    def test_a_launcher_that_ends_what_is_at_its_end(self):
        """As where another rank has ended already: rank 0 says its error, and nothing of the signal."""
        for ranks in (0, 2):
            done = subprocess.run(support.command(train(config="none.toml"), ranks), cwd=self.folder, capture_output=True,
                                  text=True, timeout=300, env=support.environment() | support.preload(
                                      "kill_in_mpi", MRMF_TERM_IN_FINALIZE="1"))
            self.assertNotEqual(done.returncode, 0)
            said = self.said(done.stderr)
            self.assertEqual(len(said), 1, done.stderr)
            self.assertIn("none.toml: there is no such file", said[0])

    def check(self, code, message, words, ranks):
        done = subprocess.run(support.command(words, ranks), cwd=self.folder, capture_output=True, text=True, timeout=300,
                              env=support.environment())
        with self.subTest(" ".join(words), ranks=ranks):
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            self.assertNotIn("MPI_ABORT", done.stdout + done.stderr)
            said = self.said(done.stderr)
            self.assertEqual(len(said), 1, done.stderr)
            self.assertTrue(said[0].startswith("mrmf: error: "), said)
            self.assertIn(message, said[0])

    def test_errors_of_every_rank(self):
        for number, (code, message, words) in enumerate(ERRORS):
            for ranks in (2, 3):
                if EVERYTHING or ranks == 2 + number % 2:
                    self.check(code, message, words, ranks)

    def test_an_error_of_one_rank_ends_the_others(self):
        """Each rank in a folder of its own, of which one has no configuration: the other waits for it in vain."""
        os.mkdir(self.path("elsewhere"))
        program = ["-n", "1", support.MRMF, "train", "config.toml", "--set", "run.folder=new"]
        for bad, begin in ((0, "mrmf: error: "), (1, "mrmf: error on rank 1: ")):
            folders = ["elsewhere" if rank == bad else "." for rank in (0, 1)]
            words = [word for folder in folders for word in (":", "--wdir", self.path(folder), *program)][1:]
            done = subprocess.run(["mpirun", "--oversubscribe", "--bind-to", "none", *words], cwd=self.folder,
                                  capture_output=True, text=True, timeout=300, env=support.environment())
            self.assertEqual(done.returncode, 2, done.stderr)
            said = [line for line in done.stderr.splitlines() if line.startswith("mrmf: error")]
            self.assertEqual(len(said), 1, done.stderr)
            self.assertTrue(said[0].startswith(begin + "config.toml"), said)
            self.assertFalse(os.path.exists(self.path("new")))


if __name__ == "__main__":
    support.main()
