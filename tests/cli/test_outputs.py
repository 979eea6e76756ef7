"""What commands write: whole or not at all, over nothing that a user has, and nowhere else."""
import concurrent.futures
import os
import resource
import signal
import subprocess
import unittest

import h5py
import numpy as np

import support

NEURONS = ["simulate", "neuron", "--samples", "60", "--cells", "1", "--threads", "1"]
CUBES = ["simulate", "cosmology", "--samples", "20", "--size", "16", "--particles", "1", "--steps", "2", "--per-file", "4",
         "--threads", "1"]


def files_up_to(size):
    """No file may grow beyond this, as on a full disk."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return limit


class Outputs(support.MrmfTest):
    def contents(self, folder="."):
        """Every file below, and its bytes."""
        found = {}
        for place, _, names in os.walk(self.path(folder)):
            for name in names:
                path = os.path.join(place, name)
                with open(path, "rb") as file:
                    found[os.path.relpath(path, self.folder)] = file.read()
        return found

    def limited(self, size, *words):
        done = subprocess.run(support.command(words), cwd=self.folder, capture_output=True, text=True, timeout=120,
                              env=support.environment(), preexec_fn=files_up_to(size), restore_signals=False)
        return done.returncode, done.stdout + done.stderr


class FullDisk(Outputs):
    def test_simulations_and_copies_end_with_an_error_and_leave_nothing(self):
        support.make_data(self.path("data.h5"), train=64, validation=16)
        before = self.contents()
        for words, at in ((NEURONS + ["-o", "out.h5"], "out.h5"), (CUBES + ["-o", "cubes"], "cubes/"),
                          (["coarsen", "data.h5", "--factor", "2", "-o", "coarse"], "coarse/data.h5")):
            for size in (0, 1000, 20000):
                code, output = self.limited(size, *words)
                self.assertEqual(code, 3, output)
                errors = [line for line in output.splitlines() if line.startswith("mrmf: error")]
                self.assertEqual(len(errors), 1, output)
                self.assertIn(at, errors[0])
                self.assertIn("File too large", errors[0])
                self.assertEqual(self.contents(), before)
                self.assertEqual(sorted(os.listdir(self.folder)), ["data.h5"])  # nor folders

    def test_a_picture_that_does_not_fit_is_not_the_fault_of_matplotlib(self):
        support.make_data(self.path("data.h5"))
        self.config()
        self.mrmf("train", "config.toml", "--set", "training.epochs=1")
        code, output = self.limited(1000, "plot", "run", "-o", "p.png")
        self.assertEqual(code, 3, output)
        self.assertIn(": the image cannot be written: File too large", output)
        self.assertNotIn("matplotlib and h5py", output)
        self.assertFalse(os.path.exists(self.path("p.png")))

    def test_a_run_whose_first_records_did_not_fit_starts_again(self):
        support.make_data(self.path("data.h5"), train=32, validation=16)
        self.write("config.toml", support.CONFIG)
        for size in (0, 50, 150, 600):
            code, output = self.limited(size, "train", "config.toml")
            self.assertEqual(code, 3, output)
        self.mrmf("train", "config.toml")

    def test_predictions(self):
        support.make_data(self.path("data.h5"), train=32, validation=2000)
        self.write("config.toml", support.CONFIG)
        self.mrmf("train", "config.toml", "--set", "training.epochs=1")
        before = self.contents()
        for size in (500, 4000, 15000):
            code, output = self.limited(size, "predict", "run", "-o", "out.h5")
            self.assertEqual(code, 3, output)
            self.assertEqual(self.contents(), before)
        self.mrmf("predict", "run", "-o", "out.h5")
        with h5py.File(self.path("out.h5")) as file:
            self.assertTrue(np.all(np.any(file["prediction"][:] != 0, axis=1)))


class Replacing(Outputs):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"), train=32, validation=16)
        self.write("config.toml", support.CONFIG)

    def test_predictions_replace_on_demand_only_and_never_what_they_read(self):
        self.mrmf("train", "config.toml", "--set", "training.epochs=1")
        self.mrmf("predict", "run", "-o", "out.h5")
        os.link(self.path("data.h5"), self.path("other-name.h5"))
        os.symlink("out.h5", self.path("link.h5"))
        before = self.contents()
        self.fails(2, "predict", "run", "-o", "out.h5", message="out.h5: is there already; give --overwrite to replace it")
        for target, ranks in (("data.h5", 0), ("other-name.h5", 2), ("run/checkpoints/final.h5", 0), ("run/config.toml", 0)):
            self.fails(2, "predict", "run", "--overwrite", "-o", target, message=f"{target}: is read by this very command",
                       ranks=ranks)
        self.fails(2, "predict", "run", "--overwrite", "-o", "data.h5", message="and with --append NAME the data sets of")
        self.fails(2, "predict", "run", "--overwrite", "-o", "link.h5", message="link.h5: is a link")
        self.fails(2, "predict", "run", "--overwrite", "-o", "run", message="run: is a folder")
        self.assertEqual(self.contents(), before)
        self.mrmf("predict", "run", "-o", "out.h5", "--overwrite", ranks=2)

    def test_every_other_output_follows_the_same_rule(self):
        self.mrmf("train", "config.toml", "--set", "training.epochs=1")
        self.write("there.png", "precious")
        self.write("there.json", "precious")
        os.mkdir(self.path("coarse"))
        self.write("coarse/data.h5", "precious")
        before = self.contents()
        self.fails(2, "plot", "run", "-o", "there.png", message="there.png: is there already")
        self.fails(2, "bench", "training", "--steps", "1", "--length", "400", "--batch", "1", "--json", "there.json",
                   message="there.json: is there already")
        self.fails(2, "coarsen", "data.h5", "--factor", "2", "-o", "coarse", message="coarse/data.h5: is there already")
        self.fails(2, "coarsen", "data.h5", "--factor", "2", "-o", ".", "--overwrite", message="is read by this very command")
        # Before the work, not after it: these samples would take an hour.
        said = self.mrmf("simulate", "neuron", "--samples", "2000000", "-o", "there.json", code=2)
        self.assertIn("there.json: is there already", said)
        self.assertEqual(self.contents(), before)
        self.mrmf("plot", "run", "-o", "there.png", "--overwrite")
        with open(self.path("there.png"), "rb") as file:
            self.assertEqual(file.read(4), b"\x89PNG")

    def test_the_plotting_script_outlives_the_program_and_makes_no_file(self):
        """Killed, the program takes its unfinished file away; the script, still drawing, does not bring it back."""
        self.mrmf("train", "config.toml", "--set", "training.epochs=1")
        before = self.contents()
        script = os.path.join(os.path.dirname(__file__), "..", "..", "jobs", "plots", "plot.py")
        done = subprocess.run(["/usr/bin/python3", script, "run", "-o", "gone.png.partial-1", "--format", "png"], cwd=self.folder,
                              capture_output=True, text=True, timeout=120)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("gone.png.partial-1", done.stderr)
        self.assertEqual(self.contents(), before)

    def test_a_project_is_no_run_folder(self):
        for folder in ("team", "checkpoints"):
            os.mkdir(self.path(folder))
        for name in ("team/members.csv", "checkpoints/step-1000.pt", "log.txt"):
            self.write(name, "precious")
        before = self.contents()
        for words in ([], ["--overwrite"]):
            self.fails(2, "train", "config.toml", "--set", "run.folder=.", *words, message="is not empty and not a run's")
        self.fails(2, "train", "config.toml", "--set", 'run.folder=""', message="run.folder")
        self.assertEqual(self.contents(), before)

    def test_a_runs_own_configuration_is_never_replaced_by_itself(self):
        self.mrmf("train", "config.toml", "--set", "training.epochs=1")
        text = "# mine\n" + self.read("run/config.toml")
        self.write("run/config.toml", text)
        self.fails(2, "train", "run/config.toml", "--overwrite", "--set", "training.seed=9",
                   message="is the configuration that run.folder keeps")
        self.mrmf("train", "run/config.toml", "--overwrite")
        self.assertEqual(self.read("run/config.toml"), text)

    def test_a_run_that_fails_removes_nothing_of_another_in_the_same_new_folder(self):
        with h5py.File(self.path("bad.h5"), "w") as bad, h5py.File(self.path("data.h5")) as data:
            for name in data:
                data.copy(name, bad)
            bad["train_frames"][3] = np.nan
        for _ in range(50):
            # The first run makes the folder of both, and finds its NaN when the second one is done.
            first = self.launch("train", "config.toml", "--set", "data.files=[\"bad.h5\"]", "--set", "run.folder=runs/a")
            support.wait_while(first, lambda: not os.path.exists(self.path("runs/a/.mrmf-run")))
            first.send_signal(signal.SIGSTOP)
            if os.path.exists(self.path("runs/a")):
                break
            first.send_signal(signal.SIGCONT)
            first.communicate()
        self.mrmf("train", "config.toml", "--set", "run.folder=runs/b", "--set", "training.epochs=1")
        first.send_signal(signal.SIGCONT)
        output = first.communicate(timeout=60)[0]
        self.assertEqual(first.returncode, 3, output)
        self.mrmf("evaluate", "runs/b")
        self.assertEqual(os.listdir(self.path("runs")), ["b"])


class TwoWriters(Outputs):
    def test_of_two_at_once_one_has_the_file_and_the_other_says_so(self):
        self.mrmf(*NEURONS, "-o", "alone.h5")
        for _ in range(3):
            both = [subprocess.Popen(support.command([*NEURONS, "-o", "x.h5"]), cwd=self.folder, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, text=True, env=support.environment()) for _ in range(2)]
            outputs = [process.communicate(timeout=120)[0] for process in both]
            self.assertEqual(sorted(process.returncode for process in both), [0, 2], outputs)
            self.assertIn("x.h5: is there already", "".join(outputs))
            self.assertEqual(sorted(self.contents()), ["alone.h5", "x.h5"])
            with h5py.File(self.path("alone.h5")) as alone, h5py.File(self.path("x.h5")) as x:
                for name in alone:
                    if name != "meta.JSON":  # the file's name is in it
                        np.testing.assert_array_equal(alone[name][:], x[name][:])
            os.remove(self.path("x.h5"))


class ManyAtOnce(Outputs):
    def test_commands_without_mpirun_do_not_meet_in_a_folder_of_mpi(self):
        def one_after_another(_):
            return [self.launch("presets").communicate(timeout=60)[0] for _ in range(12)]
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            outputs = [output for outputs in pool.map(one_after_another, range(6)) for output in outputs]
        self.assertEqual(set(outputs), {self.mrmf("presets")})


class Stopped(Outputs):
    def test_a_signal_leaves_no_part_of_a_file(self):
        for how in (signal.SIGTERM, signal.SIGINT):
            process = self.launch("simulate", "neuron", "--samples", "100000", "--cells", "1", "-o", "x.h5")
            while not any(".partial-" in name for name in os.listdir(self.folder)):
                self.assertIsNone(process.poll())
            process.send_signal(how)
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, -how)
            self.assertEqual(os.listdir(self.folder), [])

    def test_cubes_go_on_where_they_were_stopped(self):
        self.mrmf(*CUBES, "-o", "straight")
        process = self.launch(*CUBES, "-o", "cubes")
        while not os.path.isdir(self.path("cubes")) or len(os.listdir(self.path("cubes"))) < 2:
            if process.poll() is not None:
                break
        process.kill()
        process.communicate()
        for name in os.listdir(self.path("cubes")):  # what SIGKILL leaves
            if ".partial-" in name or name == "data.toml":
                os.remove(self.path("cubes/" + name))
        self.mrmf(*CUBES, "-o", "cubes")
        straight, cubes = self.contents("straight"), self.contents("cubes")
        for name, data in straight.items():
            if name.endswith(".h5"):
                self.assertEqual(cubes[name.replace("straight", "cubes", 1)], data)
        self.fails(2, *CUBES, "-o", "cubes", message="data.toml: is there already")
        self.fails(2, *CUBES, "--seed", "2", "-o", "cubes", message="data.toml: is there already")
        os.remove(self.path("cubes/data.toml"))
        self.fails(2, *CUBES, "--seed", "2", "-o", "cubes", message="of another simulation")
        self.mrmf(*CUBES, "--seed", "2", "--overwrite", "-o", "cubes")


class Models(Outputs):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"), train=32, validation=16)
        self.write("config.toml", support.CONFIG)

    def test_a_flipped_bit_in_a_model_is_seen_and_an_older_model_opens(self):
        self.mrmf("train", "config.toml", "--set", "training.epochs=1")
        path = self.path("run/checkpoints/final.h5")
        with open(path, "rb") as file:
            whole = file.read()
        numbers = self.mrmf("evaluate", "run")
        for place in range(0, len(whole), max(1, len(whole) // 9)):
            damaged = bytearray(whole)
            damaged[place] ^= 4
            with open(path, "wb") as file:
                file.write(damaged)
            self.fails(3, "evaluate", "run", message="final.h5: damaged or cut short")
        self.fails(3, "predict", "run", "-o", "out.h5", message="final.h5: damaged or cut short")
        self.assertFalse(os.path.exists(self.path("out.h5")))
        with open(path, "wb") as file:
            file.write(whole[:-16])
        older = self.mrmf("evaluate", "run")
        self.assertIn("without a checksum", older)
        self.assertEqual(older[older.index("\n") + 1:], numbers)

    def test_a_model_with_a_layer_too_many(self):
        self.mrmf("train", "config.toml", "--set", "training.epochs=1")
        path = self.path("run/checkpoints/final.h5")
        with h5py.File(path, "a") as file:  # whose checksum goes with it, as an older version's
            file["parameters/conv9/weight"] = np.zeros((3, 3), np.float32)
        self.fails(3, "evaluate", "run", message="data set parameters/conv9/weight is of no layer of this model")

    def test_a_configuration_longer_than_an_attribute(self):
        files = [f"{'long-' * 20}{i:04}.h5" for i in range(0, 1400, 2)]  # not written in short: they do not count up
        for name in files:
            os.link(self.path("data.h5"), self.path(name))
        self.write("config.toml", support.CONFIG.replace('["data.h5"]', str([os.path.join(self.folder, f) for f in files])))
        self.mrmf("train", "config.toml", "--set", "training.epochs=1", "--set", 'data.validation.files=["data.h5"]', "--set",
                  "data.duplicates=allow")
        with h5py.File(self.path("run/checkpoints/final.h5")) as model:
            self.assertIn(files[-1], model["config"][0].decode())
        self.mrmf("evaluate", "run")

    def test_runs_are_found_from_anywhere_and_what_is_missing_is_said(self):
        self.mrmf("train", "config.toml", "--set", "training.epochs=1", "--set", "run.folder=runs/one")
        numbers = self.mrmf("evaluate", "runs/one")
        self.assertIn("data.h5", numbers)
        os.mkdir(self.path("elsewhere"))
        top, self.folder = self.folder, self.path("elsewhere")
        from_elsewhere = self.mrmf("evaluate", "../runs/one")
        self.assertEqual(from_elsewhere.splitlines()[2:], numbers.splitlines()[2:])  # after the model and the files
        self.mrmf("predict", "../runs/one", "-o", "out.h5")  # from the data that the run names
        with h5py.File(self.path("out.h5")) as file:
            self.assertEqual(file["prediction"].shape, (16, 2))
        self.fails(3, "predict", "runs/one", "-o", "other.h5", message="runs/one: there is no such run folder (looked for ")
        self.fails(3, "evaluate", "runs/one", message=f"runs/one: there is no such run folder (looked for {self.folder}/runs/one)")
        self.fails(3, "evaluate", ".", message=f"not a run folder: there is no {self.folder}/config.toml")
        self.folder = top

    def test_an_unfinished_runs_newest_checkpoint(self):
        method = ["--set", "method.name=mrmf", "--set", "method.resolutions=[[2],[1]]", "--set", "method.stop.dense.epochs=1"]
        process = self.launch("train", "config.toml", *method, "--set", "training.epochs=1000000", "--set", "run.checkpoint.epochs=1")
        while not os.path.exists(self.path("run/checkpoints/phase-1.h5")):
            self.assertIsNone(process.poll(), process.stdout)
        process.send_signal(signal.SIGTERM)
        output = process.communicate(timeout=60)[0]
        self.assertEqual(process.returncode, 75, output)
        self.fails(3, "evaluate", "run", message="the run is not done: there is no " + self.path("run/checkpoints/final.h5"))
        output = self.mrmf("evaluate", "run", "--checkpoint")
        self.assertIn("phase-1.h5: the coarse model of stage 1 at resolution [2], not a finished run's", output)
        loss = self.lines("run/epochs.jsonl")[-1]["validation_loss"]
        mean = float(output.splitlines()[-1].split()[1])
        self.assertAlmostEqual(mean, loss, delta=0.5 * loss)  # up to an epoch of steps behind
        self.fails(3, "predict", "run", "-o", "p.h5", message="the run is not done")
        self.mrmf("predict", "run", "--checkpoint", "-o", "p.h5")
        with h5py.File(self.path("p.h5")) as out, h5py.File(self.path("data.h5")) as data:
            error = out["prediction"][:] - data["val_unitStar_par"][:]
            self.assertAlmostEqual(float(np.mean(error**2)), mean, delta=1e-4 * mean)


if __name__ == "__main__":
    unittest.main()
