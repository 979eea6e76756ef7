"""Hostile and odd input: files that are not what they seem end with one clear line, soon, and with the right exit code."""
import itertools
import json
import math
import os
import resource
import shutil
import socket
import subprocess
import sys

import h5py
import numpy as np

import support

SOON = 300  # seconds: what hangs would take for ever
ENOUGH = 4194304


def work_of_commands():
    """Processor seconds of all commands so far: other work on the machine does not count."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Hostile(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"))
        self.config()

    def refused(self, code, *sets, message, **options):
        words = [word for one in sets for word in ("--set", one)]
        options.setdefault("timeout", SOON)
        output = self.fails(code, "train", "config.toml", *words, message=message, **options)
        self.assertFalse(os.path.exists(self.path("run")), "a run folder was left behind")
        return output

    def replace(self, name, make):
        """make(file, name, old values) in the place of a data set."""
        with h5py.File(self.path("data.h5"), "a") as file:
            values = file[name][:] if math.prod(file[name].shape) < 1 << 30 else None
            del file[name]
            make(file, name, values)


class MissingRows(Hostile):
    """What HDF5 gives its fill value for was never measured."""

    def half_written(self, file, name, values):
        chunked = file.create_dataset(name, values.shape, values.dtype, chunks=(4, *values.shape[1:]), fillvalue=7.0)
        chunked[:48] = values[:48]
        chunked[56:] = values[56:]

    def test_chunks_that_were_never_written(self):
        self.replace("train_frames", self.half_written)
        for part in ("data.h5: data set 'train_frames': row 48 and maybe others were never written", "22 of 24 chunks",
                     'data.missing = "fill"'):
            self.refused(3, message=part)
        self.fails(3, "inspect", "config.toml", message="row 48")
        self.fails(3, "train", "config.toml", message="row 48", ranks=2)

    def test_labels_that_were_never_written(self):
        self.replace("val_unitStar_par", lambda file, name, values: file.create_dataset(name, values.shape, "float32"))
        self.refused(3, message="data set 'val_unitStar_par': row 0 and maybe others were never written")

    def test_words_that_were_never_written_are_no_class(self):
        with h5py.File(self.path("w.h5"), "w") as file:
            file["x"] = np.random.default_rng(0).normal(0, 1, (40, 32, 2)).astype("f4")
            file.create_dataset("y", (40,), h5py.string_dtype(), chunks=(10,))[:30] = [("ash", "oak")[i % 2] for i in range(30)]
        self.write("w.toml", support.rows_config("flatten", "dense units=2", files=("w.h5",), batch=4, data='train = { samples = "x", labels = "y" }\n'
                   "duplicates = \"allow\"").replace("[training]", '[training]\nloss = "cross_entropy"\nclass_values = ["ash", "oak"]'))
        self.fails(3, "train", "w.toml", message="data set 'y': row 30 and maybe others were never written")

    def test_raw_bytes_beside_the_file_that_are_looked_for_elsewhere(self):
        os.mkdir(self.path("d"))
        np.zeros(40 * 32 * 2, "f4").tofile(self.path("d/raw.bin"))
        with h5py.File(self.path("d/r.h5"), "w") as file:
            file.create_dataset("x", (40, 32, 2), "f4", external=[("raw.bin", 0, 40 * 32 * 2 * 4)])
        self.fails(3, "coarsen", "d/r.h5", "--factor", "2", "-o", "c",
                   message="come from raw.bin, which is beside the file and not in the current folder (set HDF5_EXTFILE_PREFIX='${ORIGIN}')")

    def test_compressed_chunks_that_were_never_written(self):
        def make(file, name, values):
            file.create_dataset(name, values.shape, values.dtype, chunks=(1, 32, 3), compression="gzip")[:95] = values[:95]
        self.replace("train_frames", make)
        self.refused(3, message="row 95 and maybe others were never written (190 of 192 chunks are there)")

    def test_fill_values_where_they_are_asked_for(self):
        self.replace("train_frames", self.half_written)
        allowed = ("--set", "data.missing=fill", "--set", "training.epochs=1")
        self.mrmf("train", "config.toml", *allowed)
        self.mrmf("inspect", "config.toml", *allowed)
        self.assertIn('missing = "fill"', self.read("run/config.toml"))
        self.mrmf("evaluate", "run", "--split", "train")
        self.fails(3, "evaluate", "run", "--split", "train", "--missing", "refuse", message="row 48")
        self.fails(3, "predict", "run", "--split", "train", "--missing", "refuse", "-o", "p.h5", message="row 48")
        self.fails(3, "coarsen", "data.h5", "--factor", "2", "-o", "coarse", message="row 48")
        self.assertFalse(os.path.exists(self.path("coarse")))
        self.mrmf("coarsen", "data.h5", "--factor", "2", "-o", "coarse", "--missing", "fill")
        with h5py.File(self.path("coarse/data.h5")) as file:
            self.assertTrue((file["train_frames"][48:56] == 7).all())

    # --- virtual data sets

    def virtual(self, layout, source="source.h5"):
        """train_frames as a virtual data set; layout(values, path of the source) gives it."""
        def make(file, name, values):
            with h5py.File(self.path("source.h5"), "w") as other:
                other["x"] = values
            file.create_virtual_dataset(name, layout(values, source), fillvalue=0)
        self.replace("train_frames", make)

    @staticmethod
    def whole(values, source):
        layout = h5py.VirtualLayout(values.shape, values.dtype)
        layout[:] = h5py.VirtualSource(source, "x", values.shape)
        return layout

    @staticmethod
    def two_halves(values, source):
        layout = h5py.VirtualLayout(values.shape, values.dtype)
        half = h5py.VirtualSource(source, "x", values.shape)
        layout[:40] = half[:40]
        layout[50:] = half[50:]
        return layout

    def test_a_virtual_data_set_trains_as_what_it_is_made_of(self):
        self.mrmf("train", "config.toml", "--set", "run.folder=plain")
        self.virtual(self.whole)
        self.mrmf("train", "config.toml", "--set", "run.folder=virtual")
        self.assertEqual([line["train_loss"] for line in self.lines("plain/epochs.jsonl")],
                         [line["train_loss"] for line in self.lines("virtual/epochs.jsonl")])

    def test_outputs_do_not_replace_what_is_read_through_other_files(self):
        self.mrmf("train", "config.toml", "--set", "training.epochs=1")
        self.virtual(self.whole)
        self.replace("val_frames", lambda file, name, values: None)
        with h5py.File(self.path("linked.h5"), "w") as other, h5py.File(self.path("data.h5"), "a") as file:
            other["x"] = np.zeros(file["val_unitStar_par"].shape[:1] + (64, 3), "f4")
            file["val_frames"] = h5py.ExternalLink("linked.h5", "x")
            other["x"][()].tofile(self.path("raw.bin"))
            file.create_dataset("raw", other["x"].shape, "f4", external=[("raw.bin", 0, other["x"].size * 4)])
        os.mkdir(self.path("elsewhere"))
        for name, samples in (("source.h5", "train_frames"), ("linked.h5", "val_frames"), ("raw.bin", "raw")):
            before = support.digest(self.path(name))
            self.fails(2, "predict", "run", "--samples", samples, "-o", name, "--overwrite",
                       message=f"{name}: is read by this very command")
            self.assertEqual(support.digest(self.path(name)), before)
        with h5py.File(self.path("source.h5")) as source, h5py.File(self.path("elsewhere/source.h5"), "w") as file:
            file.create_virtual_dataset("x", self.whole(source["x"], self.path("source.h5")))
        self.fails(2, "coarsen", "elsewhere/source.h5", "--factor", "2", "-o", ".", "--overwrite",
                   message="source.h5: is read by this very command")

    def test_a_coarse_copy_has_the_values_that_lie_in_other_files(self):
        words = np.array(["a", "longer than that", ""], dtype=object)
        with h5py.File(self.path("source.h5"), "w") as other:
            other["labels"] = np.arange(200, dtype=np.float64).reshape(100, 2)
            other.create_dataset("words", data=words, dtype=h5py.string_dtype())
        np.arange(10, dtype="<i4").tofile(self.path("raw.bin"))
        with h5py.File(self.path("data.h5"), "a") as file:
            for name in ("labels", "words"):
                with h5py.File(self.path("source.h5")) as other:
                    source = h5py.VirtualSource("source.h5", name, other[name].shape)
                    layout = h5py.VirtualLayout(other[name].shape, other[name].dtype)
                layout[...] = source
                file.create_virtual_dataset(f"far/{name}", layout)
            file.create_dataset("far/raw", (10,), "<i4", external=[("raw.bin", 0, 40)])
            file["far/labels"].attrs["unit"] = "mV"
            file.create_dataset("near/packed", data=np.arange(100.0), chunks=(30,), maxshape=(None,), compression="gzip")
            file["near/type"] = np.dtype("<f8")
            file.create_dataset("near/of_a_type", data=[1.0, 2.0], dtype=file["near/type"])
            file.create_dataset("near/pointers", data=[file["near/packed"].ref], dtype=h5py.ref_dtype)
            file["near/nothing"] = h5py.Empty("f4")
        self.mrmf("coarsen", "data.h5", "--factor", "2", "-o", "elsewhere/coarse")
        os.remove(self.path("source.h5"))
        os.remove(self.path("raw.bin"))
        with h5py.File(self.path("elsewhere/coarse/data.h5")) as file:
            self.assertTrue(np.array_equal(file["far/labels"], np.arange(200.0).reshape(100, 2)))
            self.assertEqual(file["far/labels"].attrs["unit"], "mV")
            self.assertEqual([word.decode() for word in file["far/words"]], list(words))
            self.assertEqual(list(file["far/raw"]), list(range(10)))
            packed = file["near/packed"]
            self.assertTrue(np.array_equal(packed, np.arange(100.0)))
            self.assertEqual((packed.chunks, packed.compression, packed.maxshape), ((30,), "gzip", (None,)))
            self.assertEqual(list(file["near/of_a_type"]), [1.0, 2.0])
            self.assertFalse(file["near/pointers"][0])
            self.assertIsNone(file["near/nothing"].shape)
            self.assertFalse(any(file[f"far/{name}"].is_virtual for name in ("labels", "words")))

    def test_source_that_is_not_there(self):
        self.virtual(self.whole)
        os.remove(self.path("source.h5"))
        self.refused(3, message="data set 'train_frames': row 0 and maybe others come from data set 'x' of source.h5, "
                                "which is not there")
        self.mrmf("train", "config.toml", "--set", "data.missing=fill", "--set", "training.epochs=1")

    def test_source_without_its_data_set(self):
        self.virtual(self.whole)
        with h5py.File(self.path("source.h5"), "a") as file:
            file.move("x", "y")
        self.refused(3, message="data set 'x' of source.h5, which is not there")

    def test_source_that_has_fewer_rows(self):
        self.virtual(self.whole)
        with h5py.File(self.path("source.h5"), "a") as file:
            values = file["x"][:90]
            del file["x"]
            file["x"] = values
        self.refused(3, message="which has fewer")

    def test_source_with_rows_that_were_never_written(self):
        self.virtual(self.whole)
        with h5py.File(self.path("source.h5"), "a") as file:
            values = file["x"][:]
            del file["x"]
            self.half_written(file, "x", values)
        self.refused(3, message="where row 48 and maybe others were never written")

    def test_rows_without_a_source(self):
        self.virtual(self.two_halves)
        self.refused(3, message="row 40 and maybe others have no source")

    def test_its_own_source(self):
        self.virtual(lambda values, _: self.whole(values, "."))
        with h5py.File(self.path("data.h5"), "a") as file:
            file["x"] = h5py.SoftLink("/train_frames")
        for words in (("train", "config.toml"), ("inspect", "config.toml"), ("coarsen", "data.h5", "--factor", "2", "-o", "c")):
            self.fails(3, *words, message="is among its own sources", timeout=SOON)

    def test_sources_in_a_circle(self):
        shape = (96, 64, 3)
        self.virtual(self.whole)
        for name, other in (("source.h5", "third.h5"), ("third.h5", "source.h5")):
            layout = h5py.VirtualLayout(shape, "float32")
            layout[:] = h5py.VirtualSource(other, "x", shape)
            with h5py.File(self.path(name), "w") as file:
                file.create_virtual_dataset("x", layout)
        self.refused(3, message="is among its own sources")
        self.refused(3, "data.missing=fill", message="is among its own sources")

    def test_source_that_is_a_fifo(self):
        self.virtual(self.whole)
        os.remove(self.path("source.h5"))
        os.mkfifo(self.path("source.h5"))
        self.refused(3, message="source.h5, which is a FIFO (named pipe), not a file")
        os.remove(self.path("source.h5"))
        os.mkdir(self.path("source.h5"))
        self.refused(3, "data.missing=fill", message="data.h5: data set 'train_frames' leads to ")

    def test_source_that_is_something_else(self):
        self.virtual(self.whole)
        os.remove(self.path("source.h5"))
        self.write("source.h5", "not HDF5\n" * 100)
        where = "data.h5: data set 'train_frames': row 0 and maybe others come from data set 'x' of source.h5, "
        self.refused(3, message=where + "which is not an HDF5 file; put the file that these rows are in where that one is")
        os.remove(self.path("source.h5"))
        os.symlink("source.h5", self.path("source.h5"))
        self.refused(3, message=where + "which cannot be looked at (Too many levels of symbolic links); put")
        with h5py.File(self.path("data.h5"), "a") as file:
            del file["train_frames"]
            file["train_frames"] = h5py.ExternalLink("source.h5", "/x")
        self.refused(3, message="leads to '/x' of source.h5, which cannot be looked at (Too many levels of symbolic links)")

    def test_raw_file_that_is_a_device(self):
        def make(file, name, values):
            file.create_dataset(name, values.shape, values.dtype, external=[("/dev/zero", 0, values.nbytes)])
        self.replace("train_frames", make)
        self.refused(3, message="data.h5: data set 'train_frames' leads to /dev/zero, which is a device, not a file")

    def test_raw_file_that_is_too_short(self):
        def make(file, name, values):
            values.tofile(self.path("raw"))
            file.create_dataset(name, values.shape, values.dtype, external=[("raw", 0, values.nbytes)])
        self.replace("train_frames", make)
        self.mrmf("train", "config.toml", "--set", "training.epochs=1", "--set", "run.folder=whole")
        os.truncate(self.path("raw"), 1000)
        self.refused(3, message="row 1 and maybe others come from raw, which is too short")
        os.remove(self.path("raw"))
        self.refused(3, message="come from raw, which is not there")

    def test_many_sources(self):
        def make(file, name, values):
            layout = h5py.VirtualLayout(values.shape, values.dtype)
            for row in range(len(values)):
                with h5py.File(self.path(f"{row}.h5"), "w") as other:
                    other["x"] = values[row:row + 1]
                layout[row:row + 1] = h5py.VirtualSource(f"{row}.h5", "x", (1, *values.shape[1:]))
            file.create_virtual_dataset(name, layout)
        self.replace("train_frames", make)
        self.mrmf("train", "config.toml", "--set", "training.epochs=1", "--set", "run.folder=all")
        # Sources that cannot be opened would be fill values.
        few = subprocess.run(["bash", "-c", f"ulimit -n 128; exec {support.MRMF} train config.toml"], cwd=self.folder,
                             capture_output=True, text=True, timeout=SOON, env=support.environment())
        self.assertEqual(few.returncode, 3, few.stderr)
        self.assertIn("raise `ulimit -n`", few.stderr)


class NoRegularFile(Hostile):
    """Opening a FIFO waits for its writer."""

    def fifo(self, name):
        if os.path.exists(self.path(name)):
            os.remove(self.path(name))
        os.mkfifo(self.path(name))

    def test_data(self):
        self.fifo("data.h5")
        self.refused(3, message="data.h5: is a FIFO (named pipe), not a file")
        self.fails(3, "coarsen", "data.h5", "--factor", "2", "-o", "c", message="is a FIFO", timeout=SOON)
        self.refused(3, 'data.files=["/dev/zero"]', message="/dev/zero: is a device, not a file")

    def test_socket(self):
        os.remove(self.path("data.h5"))
        with socket.socket(socket.AF_UNIX) as one:
            here = os.getcwd()
            os.chdir(self.folder)  # names of sockets are short
            one.bind("data.h5")
            os.chdir(here)
            self.refused(3, message="data.h5: is a socket")

    def test_data_behind_a_link_in_the_file(self):
        self.fifo("other.h5")
        def make(file, name, values):
            file[name] = h5py.ExternalLink("other.h5", "x")
        self.replace("train_frames", make)
        self.refused(3, message="other.h5, which is a FIFO (named pipe), not a file")

    def test_config(self):
        self.fifo("config.toml")
        self.refused(2, message="config.toml: is a FIFO")

    def test_files_of_a_run(self):
        self.mrmf("train", "config.toml", "--set", "training.epochs=1")
        for name in ("epochs.jsonl", "result.json", "config.toml"):
            shutil.copytree(self.path("run"), self.path("copy"))
            self.fifo(f"copy/{name}")
            self.fails(3, "compare", "copy", message=f"copy/{name}: is a FIFO", timeout=SOON)
            if name == "epochs.jsonl":
                self.fails(3, "plot", "copy", "-o", "p.png", message="the plot was not made", timeout=SOON)
            shutil.rmtree(self.path("copy"))
        self.fifo("run/checkpoints/final.h5")
        self.fails(3, "evaluate", "run", message="final.h5: is a FIFO", timeout=SOON)

    def test_checkpoints(self):
        os.makedirs(self.path("run/checkpoints"))
        self.write("run/.mrmf-run", "")  # a run's folder
        self.fifo("run/checkpoints/phase-1.h5")
        self.fails(3, "train", "config.toml", message="phase-1.h5: is a FIFO", timeout=SOON)
        os.remove(self.path("run/checkpoints/phase-1.h5"))
        os.mkdir(self.path("run/checkpoints/phase-1.h5"))
        self.fails(3, "train", "config.toml", message="phase-1.h5: is a folder", timeout=SOON)


class Sizes(Hostile):
    """Products of sizes that no machine holds."""

    def huge(self, shape, **options):
        self.replace("train_frames", lambda file, name, _: file.create_dataset(name, shape, "float32", **options))

    def test_shapes_beyond_any_memory(self):
        for shape, chunks in (((1 << 62, 64, 3), None), ((96, 1 << 61, 3), (1, 4096, 3)), ((1 << 61, 2), (64, 2)),
                              ((96, 1 << 31, 1 << 31), (1, 64, 64)), (((1 << 62) - 1, 1), (1024, 1)),
                              ((3, 1 << 20, 1 << 20, 1 << 20, 4), (1, 1, 1, 16, 4))):
            with self.subTest(shape):
                options = {"chunks": chunks, "maxshape": (None,) * len(shape)} if chunks else {"chunks": (1, 64, 3)}
                self.huge(shape, **options)
                text = ", ".join(map(str, shape))
                self.refused(3, message=f"has shape ({text})")
                if len(shape) != 3:  # a way of each number of axes but one is enough
                    for sets in (("data.missing=fill",), ("data.missing=fill", "data.load=stream")):
                        self.refused(3, *sets, message=f"has shape ({text})")
                    self.fails(3, "inspect", "config.toml", message=f"has shape ({text})", timeout=SOON)
                self.fails(3, "coarsen", "data.h5", "--factor", "2", "-o", "c", "--samples", "train_frames",
                           message=f"has shape ({text})", timeout=SOON)

    def test_more_rows_than_memory(self):
        self.huge((1 << 40, 64, 3), chunks=(1024, 64, 3), maxshape=(None, 64, 3))
        self.replace("train_unitStar_par", lambda file, name, _: file.create_dataset(name, (1 << 40, 2), "float32",
                                                                                     chunks=(1024, 2)))
        self.refused(3, message="row 0 and maybe others were never written")
        self.refused(2, "data.missing=fill", message="data.memory")

    def test_samples_that_hold_nothing(self):
        with h5py.File(self.path("data.h5"), "a") as file:
            file["none"] = np.zeros((3, 0, 4), "float32")
        self.fails(3, "coarsen", "data.h5", "--factor", "2", "-o", "c", "--samples", "none", message="holds nothing")

    def test_layers(self):
        for old, new in (("filters = 6", f"filters = {1 << 62}"), ("units = 8", f"units = {(1 << 63) - 1}"),
                         ("filters = 6", f"filters = {1 << 46}")):
            self.config(replace=[(old, new)])
            for words in (("train", "config.toml"), ("inspect", "config.toml")):
                self.fails(2, *words, message="no machine holds", timeout=SOON)
        self.config(replace=[("kernel = 4", "kernel = 1048576")])
        self.refused(2, message="conv1: window 1048576 is larger than its input 64x3")

    def test_batches(self):
        self.refused(2, f"training.batch={ENOUGH + 1}", message=f"at most {ENOUGH}")
        self.refused(2, f"training.batch={1 << 62}", message=f"at most {ENOUGH}")
        self.refused(2, f"training.batch={ENOUGH}", message="batch")

    def test_sample_of_inspect(self):
        self.fails(2, "inspect", "config.toml", "--sample", "999999999x999999999x999999999x999999999",
                   message="no machine holds", timeout=SOON)

    def test_memory_of_many_chunks_is_as_predicted(self):
        side = 64
        with h5py.File(self.path("many.h5"), "w") as file:
            many = file.create_dataset("x", (2, side, side, side, 4), "float32", chunks=(1, 4, 4, 1, 4))
            chunk = np.ones((4, 4, 1, 4), "float32").tobytes()
            for place in itertools.product(range(2), range(0, side, 4), range(0, side, 4), range(side)):
                many.id.write_direct_chunk((*place, 0), chunk)  # 65,536 a row; through h5py's own way they take a minute
            file["y"] = np.zeros((2, 2), "float32")
        text = """
[data]
files = ["many.h5"]
train = { samples = "x", labels = "y" }
validation = { samples = "x", labels = "y" }
duplicates = "allow"
[training]
batch = 1
epochs = 1
[run]
threads = 1
""" + support.layers("average_pool window=[16,16,16]", "flatten", "dense units=2")
        self.write("many.toml", text)
        started = work_of_commands()
        predicted = self.mrmf("inspect", "many.toml").split("at its peak: ")[1].split(" MB")[0]
        self.assertLess(work_of_commands() - started, 20)
        # The system counts what a process was before it became mrmf: a process with little in it starts mrmf.
        measure = ("import resource, subprocess, sys; code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode; "
                   "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024); sys.exit(code)")
        done = subprocess.run([sys.executable, "-S", "-c", measure, *support.command(["train", "many.toml"])], cwd=self.folder,
                              capture_output=True, text=True, timeout=120, env=support.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(int(done.stdout) / 1e6, 1.2 * float(predicted))  # 1.10 on AVX2, 1.14 on AVX-512


class Names(Hostile):
    def test_a_name_among_thousands(self):
        with h5py.File(self.path("data.h5"), "a") as file:
            group = file.create_group("cubes")
            for i in range(5000):
                group.create_dataset(f"cube_{i:05}", (1,), "float32")
        started = work_of_commands()
        output = self.refused(3, "data.train.samples=cubes/cube_01234x", message="no data set 'cubes/cube_01234x'")
        self.assertLess(work_of_commands() - started, 10)
        self.assertLess(len(output), 600)
        self.assertIn("cube_01234, ", output)
        self.assertIn("and 4990 more in cubes; do you mean 'cube_01234'?", output)


class Ranks(Hostile):
    """Ranks that see other things than their neighbours."""

    def apart(self, *words, code, message):
        """One rank here, one in the folder `other`."""
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", "1", support.MRMF, *words, ":", "-n", "1",
                   "-wdir", self.path("other"), support.MRMF, *words]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=SOON,
                              env=support.environment())
        output = done.stdout + done.stderr
        self.assertEqual(done.returncode, code, output)
        errors = [line for line in output.splitlines() if line.startswith("mrmf: error")]
        self.assertEqual(len(errors), 1 if code else 0, output)
        self.assertIn(message, output)

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("other"))
        shutil.copy(self.path("data.h5"), self.path("other"))
        shutil.copy(self.path("config.toml"), self.path("other"))
        self.train = ("train", "config.toml", "--set", "training.epochs=1", "--set", f"run.folder={self.path('run')}")

    def test_same_files_elsewhere(self):
        self.apart(*self.train, code=0, message="")

    def test_other_values(self):
        for name, row in (("train_frames", 0), ("train_frames", 95), ("val_frames", 39), ("train_unitStar_par", 64)):
            with self.subTest(name, row=row):
                shutil.copy(self.path("data.h5"), self.path("other"))
                with h5py.File(self.path("other/data.h5"), "a") as file:
                    file[name][row] = 0.25
                self.apart(*self.train, code=3, message="data.h5: rank 1 sees other contents than rank 0")
                self.assertFalse(os.path.exists(self.path("run")))

    def test_other_shape(self):
        support.make_data(self.path("other/data.h5"), train=97)
        self.apart(*self.train, code=3, message="rank 1 sees other contents than rank 0")

    def test_missing_on_one_rank(self):
        os.remove(self.path("other/data.h5"))
        self.apart(*self.train, code=3, message="data.h5: no such file (looked from ")

    def test_other_data_for_evaluate(self):
        self.mrmf("train", "config.toml", "--set", "training.epochs=1")
        with h5py.File(self.path("other/data.h5"), "a") as file:
            file["val_frames"][0] = 0.25
        self.apart("evaluate", self.path("run"), code=3, message="rank 1 sees other contents than rank 0")

    def test_other_commands(self):
        for first, second in ((("plan", "config.toml"), ("inspect", "config.toml")),
                              (("train", "config.toml"), ("train", "config.toml", "--set", "training.seed=4")),
                              (("plan", "config.toml"), ("--help",))):
            self.fails(2, *first, ":", "-n", "1", support.MRMF, *second, ranks=1, timeout=SOON,
                       message=f'rank 0 with "mrmf {" ".join(first)}", rank 1 with "mrmf {" ".join(second)}"')


class Limits(Hostile):
    def under(self, limits, *words, code, message):
        done = subprocess.run(["bash", "-c", f"{limits}; exec {support.MRMF} {' '.join(words)}"], cwd=self.folder,
                              capture_output=True, text=True, timeout=SOON, env=support.environment())
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn(message, done.stderr)

    def test_too_many_open_files(self):
        names = []
        for i in range(60):
            names.append(f"{i}.h5")
            support.make_data(self.path(names[-1]), train=2, validation=1) if i == 0 else \
                os.link(self.path("0.h5"), self.path(names[-1]))
        self.config(replace=[('files = ["data.h5"]', f'files = {json.dumps(names)}\nduplicates = "allow"')])
        self.under("ulimit -n 64", "train config.toml", code=0, message="")
        self.under("ulimit -n 12", "plan config.toml", code=3, message="only 12 files may be open at once; raise `ulimit -n`")

    def test_limit_on_file_sizes(self):
        # Of 1 kB: SIGXFSZ would end the program without a word.
        self.under("ulimit -f 1", "presets --keys", ">keys.txt", code=3, message="standard output cannot be written")

    def test_full_standard_output(self):
        for words in ("plan config.toml", "presets", "presets --keys", "inspect config.toml", "doctor", "--help"):
            self.under(":", words, ">/dev/full", code=3, message="standard output cannot be written")
        self.mrmf("train", "config.toml", "--set", "training.epochs=1")
        for words in ("compare run", "evaluate run", "predict run -o p.h5"):
            self.under(":", words, ">/dev/full", code=3, message="standard output cannot be written")

    def test_reader_that_goes_early(self):
        done = subprocess.run(["bash", "-c", f"set -o pipefail; {support.MRMF} presets --keys | head -1"], cwd=self.folder,
                              capture_output=True, text=True, timeout=SOON, env=support.environment())
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_closed_standard_streams(self):
        # Else the next file that is opened is standard output, and messages are written into it.
        self.under(":", "train config.toml --set training.epochs=1", "<&- >&-", code=0, message="")
        self.mrmf("evaluate", "run")


class Texts(Hostile):
    """Configurations and records that no sane program writes."""

    def test_deep_nesting(self):
        deep = 100000
        for text in ("[data]\nfiles = " + "[" * deep + "]" * deep, "a = " + "{ b = " * deep, "[" + "a." * deep + "a]\n",
                     ".".join("a" * deep) + " = 1\n"):
            self.write("deep.toml", text)
            self.fails(2, "plan", "deep.toml", message="nested more than 32 deep", timeout=SOON)
        self.write("large.toml", "# ")
        os.truncate(self.path("large.toml"), (1 << 26) + 1)
        self.fails(2, "plan", "large.toml", message="bytes", timeout=SOON)
        for override in ("training.batch=" + "[" * 60000, ".".join("a" * 30000) + "=1"):
            self.fails(2, "plan", "config.toml", "--set", override, message="nested more than 32 deep", timeout=SOON)

    def test_brackets_in_texts_and_comments_are_no_nesting(self):
        self.config(replace=[('folder = "run"', f'folder = "{"[" * 40}"  # {"[" * 100}')])
        self.mrmf("plan", "config.toml")

    def test_empty_run_folder(self):
        self.fails(2, "train", "config.toml", "--set", "run.folder=''", message="run.folder is empty")
        self.mrmf("train", "config.toml", "--set", "run.folder=")  # unset: the default
        self.assertTrue(os.path.exists(self.path("runs")))

    def keep_for_plots(self, place):
        """A copy of the run, and the place that a message about it names."""
        shutil.copytree(self.path("run"), self.path(f"for-plots-{len(self.for_plots)}/run"))
        self.for_plots.append(place)

    def test_damaged_records(self):
        self.for_plots = []
        self.mrmf("train", "config.toml", "--set", "training.epochs=2")
        good = self.read("run/epochs.jsonl").splitlines()
        result = self.read("run/result.json")
        deep = "[" * 100000
        for bad in ("", "{", "[1, 2]", "null", '{"stage": "one"}', deep, good[1].replace('"epoch":2', '"epoch":"2"'),
                    good[1][:40], good[1].replace('"resolution":[1]', '"resolution":[0]')):
            with self.subTest(bad[:60]):
                self.write("run/epochs.jsonl", good[0] + "\n" + bad + "\n" + good[1] + "\n")
                output = self.fails(3, "compare", "run", message="run/epochs.jsonl:2: ", timeout=SOON)
                self.assertNotIn("json.exception", output)
                if bad in ("{", '{"stage": "one"}', deep):
                    self.keep_for_plots("run/epochs.jsonl:2: ")
        self.write("run/epochs.jsonl", "\n".join(good) + "\n")
        for bad in ("", "{", "[]", '{"method": 1}', deep, result.replace('"seed": 3', '"seed": "3"'), result[:100]):
            with self.subTest(bad[:60]):
                self.write("run/result.json", bad)
                output = self.fails(3, "compare", "run", message="run/result.json: ", timeout=SOON)
                self.assertNotIn("json.exception", output)
                if bad in ("[]", '{"method": 1}'):
                    self.keep_for_plots("run/result.json: ")
        # The script says what is wrong with each; starting Python takes its time, so the program starts it once.
        plots = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "jobs", "plots")
        program = f"""
import os, plot, sys
sys.argv = ["plot.py", "run", "-o", "p.png"]
for number in range({len(self.for_plots)}):
    os.chdir(os.path.join({self.folder!r}, f"for-plots-{{number}}"))
    try:
        plot.main()
    except SystemExit as end:
        print(end.code)
"""
        done = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, timeout=SOON,
                              env=dict(support.environment(), PYTHONPATH=plots))
        self.assertEqual(done.stdout.split(), ["3"] * 5, done.stderr)
        for line, place in zip(done.stderr.splitlines(), self.for_plots, strict=True):
            self.assertIn(f"plot.py: {place}", line)
        output = self.fails(3, "plot", "for-plots-0/run", "-o", "p.png", message="the plot was not made", timeout=SOON)
        self.assertIn("plot.py: for-plots-0/run/epochs.jsonl:2: ", output)
        self.assertNotIn("Traceback", output)


class Models(Hostile):
    """A model that computes nothing but NaN must not pass for one that computes."""

    def setUp(self):
        super().setUp()
        self.mrmf("train", "config.toml", "--set", "training.epochs=1")

    def test_nan_parameters(self):
        # Past the file's checksum, where it has one: made of this file anew.
        model = self.path("run/checkpoints/final.h5")
        with h5py.File(model) as file:
            values = {name: file[name][:] for name in ("parameters/dense1/weight",)}
            attributes = dict(file.attrs)
            rest = {}
            file.visititems(lambda name, item: rest.__setitem__(name, item[:]) if isinstance(item, h5py.Dataset) else None)
        rest["parameters/dense1/weight"] = values["parameters/dense1/weight"] * np.float32("nan")
        with h5py.File(model, "w") as file:
            for name, value in rest.items():
                file[name] = value
            for name, value in attributes.items():
                file.attrs[name] = value
        message = "final.h5: data set 'parameters/dense1/weight' holds NaN"
        self.fails(3, "evaluate", "run", message=message)
        self.fails(3, "predict", "run", "-o", "p.h5", message=message)
        self.assertFalse(os.path.exists(self.path("p.h5")))

    def test_infinite_outputs(self):
        with h5py.File(self.path("data.h5"), "a") as file:
            file["val_frames"][17] = 3e38
        for ranks in (0, 2):
            for words in (("evaluate", "run"), ("predict", "run", "-o", "p.h5")):
                self.fails(4, *words, message="the model's output for data.h5: data set 'val_frames', row 17 is", ranks=ranks)
        self.assertFalse([name for name in os.listdir(self.path("")) if name.startswith("p.h5")])


if __name__ == "__main__":
    support.main()
