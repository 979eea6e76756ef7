#!/usr/bin/env python3
"""jobs/submit.sh without a Slurm: what it writes, what it refuses, and the site that needs no Slurm."""
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time
import unittest

from submit_test import EXPERIMENT, MRMF, ROOT, SubmitTest


def make_program(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


class Refused(SubmitTest):
    def refused(self, *words, message):
        output = self.submit(*words, "--dry-run", code=2)
        self.assertIn(message, output.splitlines()[-1])
        self.assertFalse((self.folder / "runs").exists())

    def test_missing_site(self):
        self.refused("tiny.job", "atlantis", message="no site file atlantis")

    def test_missing_experiment(self):
        self.refused("nowhere", "generic", message="no experiment nowhere")

    def test_files_that_are_no_experiments(self):
        """They are not sourced, which would run them."""
        for name, what in (("p.toml", "a configuration, not a .job file"), ("p", "no .job file"), ("job", "no .job file")):
            self.write(name, "touch made\n")
            for word in (name, self.folder / name):
                self.refused(word, "generic", message=f"{self.folder if word != name else '.'}/{name} is {what}; write a .job")
        self.refused("demo/neuron.toml", "generic", message="demo/neuron.toml is a configuration, not a .job file; ")
        self.assertFalse((self.folder / "made").exists())

    def test_folder_of_several_experiments(self):
        self.refused("demo", "generic", message="name one: bench-scaling.job scaling.job seeds.job")

    def test_one_word(self):
        self.refused("tiny.job", message="an experiment and a site are needed")

    def test_unknown_option(self):
        self.refused("tiny.job", "generic", "--partitoin", "gpu", message="unknown option --partitoin")

    def test_time_limit_shorter_than_a_checkpoint(self):
        self.refused("tiny.job", "generic", "--time=5", "--margin=300",
                     message="time = 5 (300 s) is shorter than margin + 60 s = 360 s")

    def test_no_time_limit(self):
        self.write("tiny.job", "kind=train\nconfig=config.toml\nranks=2\n")
        self.refused("tiny.job", "generic", message="no time limit")

    def test_time_limit_that_is_none(self):
        self.refused("tiny.job", "generic", "--time=soon", message="'soon' is no time limit")

    def test_account(self):
        self.refused("tiny.job", "perlmutter", message="needs --account")

    def test_ranks(self):
        self.refused("tiny.job", "generic", "--ranks=0", message="ranks = '0' is not a whole number")

    def test_nodes_that_do_not_fit(self):
        self.refused("tiny.job", "generic", "--ranks=9", "--nodes=2", "--ranks-per-node=4", message="need 3 nodes, not 2")

    def test_gpus_without_ranks_per_node(self):
        self.refused("tiny.job", "generic", "--gpus-per-rank=1", message="also needs --ranks-per-node")

    def test_seeds(self):
        self.write("tiny.job", "kind=array\nconfig=config.toml\nranks=2\ntime=10\n")
        self.refused("tiny.job", "generic", message="an array needs --seeds")

    def test_batch_that_ranks_cannot_share(self):
        self.write("tiny.job", "kind=scaling\nconfig=config.toml\nrank_counts='1 3'\nglobal_batch=16\ntime=10\n")
        self.refused("tiny.job", "generic", message="global_batch = 16 cannot be shared by 3 ranks")

    def test_configuration(self):
        self.refused("tiny.job", "generic", "--set", "training.bacth=3", message="did you mean 'training.batch'?")

    def test_missing_program(self):
        self.refused("tiny.job", "generic", "--program=nowhere", message="no program nowhere")

    def test_run_folder_as_a_key(self):
        self.refused("tiny.job", "generic", "--set=run.folder=x", message="run.folder=x: this key does not set")
        self.refused("tiny.job", "generic", "--set=run={folder=\"x\"}", message="this table does not set")
        self.write("tiny.job", EXPERIMENT + "overrides=(run.folder=x)\n")
        self.refused("tiny.job", "generic", message="give --folder x")

    def test_commands_of_slurm_without_a_cluster(self):
        make_program(self.folder / "bin/squeue", "echo squeue: fatal >&2; exit 1")
        make_program(self.folder / "bin/sbatch", "touch made")
        self.environment = dict(self.environment, PATH=f"{self.folder}/bin:{os.environ['PATH']}")
        output = self.submit("tiny.job", "generic", "--folder=run", code=2)
        self.assertIn("squeue: fatal\nsubmit: run is not submitted: squeue reaches no Slurm, ", output)
        self.assertFalse((self.folder / "run").exists() or (self.folder / "made").exists())

    def test_finished_run(self):
        (self.folder / "done").mkdir()
        self.write("done/result.json", "{}")
        self.refused("tiny.job", "generic", "--folder=done", message="done is finished already")


    def test_line_breaks(self):
        """Each would begin a line of its own in the script."""
        array = "kind=array\nconfig=config.toml\nranks=2\ntime=10\nseeds=1\n"
        self.write("array\ntouch made\n.job", array)
        self.write("array.job", array)
        for what, words in (("experiment", ["array\ntouch made\n.job"]), ("account", ["array.job", "--account=a\ntouch made"]),
                            ("partition", ["array.job", "--partition", "a\rb"]), ("sbatch", ["array.job", "--sbatch=-n1\nid"]),
                            ("mail_user", ["array.job", "--mail-user=a\x1bb"]), ("folder", ["array.job", "--folder=a\nid"])):
            with self.subTest(what):
                self.refused(words[0], "generic", *words[1:], message=f"{what} = $'")
        self.environment = dict(self.environment, MRMF_QOS="a\ntouch made")
        self.refused("array.job", "generic", message="qos = $'a\\ntouch made'")

    def test_line_breaks_on_the_workstation(self):
        self.refused("tiny.job", "workstation", "--cpus-per-rank=1\ntouch made", message="cpus_per_rank = $'")
        self.refused("tiny.job", "workstation", "--cpus-per-rank=1; touch made", message="not a whole number")

    def test_blanks_that_slurm_takes_for_the_end(self):
        self.refused("tiny.job", "generic", "--account=a --wrap=id", message="account = 'a --wrap=id' has a blank")

    def test_words_that_are_patterns_of_file_names(self):
        self.write("7", "")
        for name, kind in (("seeds", "array"), ("rank_counts", "scaling")):
            self.write("tiny.job", f"kind={kind}\nconfig=config.toml\nranks=2\ntime=10\n{name}='1 [0-9] 2'\n")
            self.refused("tiny.job", "generic", message=f"{name} = '[0-9]' is not a whole number")
            self.refused("tiny.job", "generic", f"--{name.replace('_', '-')}=1 * 2", message=f"{name} = '*' is not")

    def test_numbers_that_the_shell_reads_otherwise(self):
        for number in ("010", "9223372036854775808", "0x10", "-1", "a[$(touch made)]"):
            self.refused("tiny.job", "generic", f"--ranks={number}", message="is not a whole number")
        self.assertFalse((self.folder / "made").exists())

    def test_option_in_the_place_of_a_value(self):
        self.refused("tiny.job", "generic", "--account", "--dry-run", message="--account needs a value")

    def test_file_that_has_the_name_of_a_site(self):
        """Neither here nor in PATH is a file sourced because it is called so."""
        for folder in (self.folder, self.folder / "bin"):
            folder.mkdir(exist_ok=True)
            for name in ("workstation", "generic", "other", "tiny.job"):
                if folder != self.folder or name != "tiny.job":
                    (folder / name).write_text("echo sourced >sourced\n")
        self.environment = dict(self.environment, PATH=f"{self.folder}/bin:{os.environ['PATH']}")
        for site in ("workstation", "generic"):
            self.submit("tiny.job", site, "--dry-run")
        self.refused("tiny.job", "other", message="for the file other that lies here, write ./other")
        self.assertFalse((self.folder / "sourced").exists())
        self.submit("tiny.job", "./other", "--dry-run")
        self.assertTrue((self.folder / "sourced").exists())

    def test_files_of_others_in_the_run_folder(self):
        (self.folder / "mine").mkdir()
        for name in ("job.sh", "job.toml"):
            path = self.folder / "mine" / name
            path.write_text("mine")
            self.refused("tiny.job", "generic", "--folder=mine", message=f"mine/{name} is there and not from jobs/submit.sh")
            path.unlink()
            path.symlink_to(self.folder / "tiny.job")
            self.refused("tiny.job", "generic", "--folder=mine", message=f"mine/{name} is a link")
            path.unlink()


class Script(SubmitTest):
    def directives(self, *words):
        output = self.submit(*words, "--dry-run")
        return [line.removeprefix("#SBATCH --") for line in output.splitlines() if line.startswith("#SBATCH ")]

    def test_shape_of_gpu_nodes(self):
        lines = self.directives("tiny.job", "perlmutter", "--account=m1", "--ranks=10")
        for line in ("ntasks=10", "nodes=3", "ntasks-per-node=4", "gpus-per-node=4", "cpus-per-task=32", "account=m1",
                     "constraint=gpu", "qos=regular", "signal=USR1@300", "requeue"):
            self.assertIn(line, lines)

    def test_a_part_of_a_node(self):
        lines = self.directives("tiny.job", "perlmutter", "--account=m1", "--ranks=2")
        for line in ("ntasks=2", "nodes=1", "ntasks-per-node=2", "gpus-per-node=2"):
            self.assertIn(line, lines)

    def test_nodes_give_the_ranks(self):
        lines = self.directives("tiny.job", "perlmutter", "--account=m1", "--nodes=8")
        self.assertIn("ntasks=32", lines)

    def test_options_before_environment_before_files(self):
        self.environment = dict(self.environment, MRMF_PARTITION="blue", MRMF_QOS="fast")
        lines = self.directives("tiny.job", "generic", "--partition=red", "--sbatch=--exclusive")
        for line in ("partition=red", "qos=fast", "exclusive"):
            self.assertIn(line, lines)

    def test_scaling_keeps_the_mini_batch(self):
        self.write("tiny.job", "kind=scaling\nconfig=config.toml\nrank_counts='1 2 4'\nglobal_batch=16\ntime=10\n")
        output = self.submit("tiny.job", "generic", "--dry-run")
        for ranks, batch in ((1, 16), (2, 8), (4, 4)):
            self.assertIn(f"/ranks-{ranks}/job.sh", output)
            self.assertIn(f"overrides=(--set training.batch={batch} --set run.ranks={ranks})", output)

    def test_scaling_benchmark_is_one_job_of_the_most_ranks(self):
        self.write("tiny.job", "kind=bench\nconfig=config.toml\nrank_counts='4 1 2'\nglobal_batch=16\ntime=10\n")
        output = self.submit("tiny.job", "generic", "--dry-run")
        self.assertEqual(output.count("/job.sh"), 1)
        self.assertIn("#SBATCH --ntasks=4\n", output)
        self.assertIn("overrides=(--set training.batch=4)", output)

    def test_dry_run_writes_nothing(self):
        self.submit("tiny.job", "generic", "--dry-run")
        self.assertFalse((self.folder / "runs").exists())

    def test_run_folder(self):
        """Named after the experiment and the folder it lies in, here; the configuration's does not count."""
        self.assertIn('folder = "run"', (self.folder / "config.toml").read_text())
        for word in ("tiny.job", self.folder / "tiny.job", "."):
            output = self.submit(word, "generic", "--dry-run")
            self.assertTrue(output.startswith(f"== runs/{self.folder.name}/tiny/job.sh\n"), output)

    def test_program_that_nothing_names(self):
        """That of this folder, of the script's repository, on PATH: the first there is."""
        shutil.copytree(ROOT / "jobs", self.folder / "repository/jobs", ignore=shutil.ignore_patterns("__pycache__"))
        self.environment = dict(self.environment, PATH=f"{self.folder}/bin:{os.environ['PATH']}")
        command = [self.folder / "repository/jobs/submit.sh", "tiny.job", "generic", "--dry-run"]

        def submit():
            return subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=120)
        places = [self.folder.resolve() / name for name in ("build/mrmf", "repository/build/mrmf", "bin/mrmf")]
        for place in places:
            make_program(place, "exit 0")
        for place in places:
            done = submit()
            self.assertIn(f"\nprogram={place}\n", done.stdout, done.stderr)
            place.unlink()
            place.mkdir()  # no program
        if not shutil.which("mrmf"):
            done = submit()
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, r"^submit: no program build/mrmf, here or in \S+/repository, and .*--program\n$")

    def test_what_is_shipped(self):
        for experiment in sorted(ROOT.glob("jobs/experiments/*/*.job")):
            with self.subTest(experiment):
                self.submit(experiment, "generic", "--dry-run")


class Workstation(SubmitTest):
    def test_array_runs_at_once(self):
        self.write("tiny.job", "kind=array\nconfig=config.toml\nranks=2\nseeds='4 5'\n")
        self.submit("tiny.job", "workstation", "--folder=runs", "--set=training.epochs=1", "--set=method.stop.coarse.epochs=1",
                    "--set=method.stop.finetune.epochs=1")
        for seed in (4, 5):
            result = self.result(f"runs/seed-{seed}")
            self.assertEqual((result["seed"], result["ranks"]), (seed, 2))

    def test_scaling_benchmark_runs_at_once(self):
        self.write("tiny.job", "kind=bench\nconfig=config.toml\nrank_counts='1 2'\nglobal_batch=160\nweak=1\n")
        output = self.submit("tiny.job", "workstation", "--folder=runs")
        self.assertIn("weak scaling", output)
        self.assertEqual([line.split(",")[:2] for line in (self.folder / "runs/scaling.csv").read_text().splitlines()],
                         [["ranks", "batch_per_rank"], ["1", "80"], ["2", "80"]])
        self.assertIn("is finished already", self.submit("tiny.job", "workstation", "--folder=runs", code=2))

    def test_script_that_cannot_be_written(self):
        """It runs out of room; the script and the configuration of before stay, and nothing runs."""
        quick = ("--folder=run", "--set=training.epochs=1", "--set=data.files=[\"gone.h5\"]")
        self.submit("tiny.job", "workstation", *quick, code=1)
        before = {path.name: path.read_bytes() for path in (self.folder / "run").iterdir()}
        self.assertLess({"job.sh", "job.toml"}, before.keys() | {"log.txt"})
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        output = self.submit("tiny.job", "workstation", *quick, "--set=training.seed=9", code=2)
        self.assertIn("submit: run/job.sh cannot be written", output)
        self.assertEqual({path.name: path.read_bytes() for path in (self.folder / "run").iterdir()}, before)

    def test_failure_is_reported(self):
        output = self.submit("tiny.job", "workstation", "--set=data.files=[\"gone.h5\"]", code=1)
        self.assertIn("gone.h5: no such file", output)
        self.assertIn("job: ", output)
        self.assertIn("exit code 3", output)

    def test_stopped_run_continues(self):
        for run in ("run-1", "run-2", "run-3"):
            code = self.stop(run)
            if code != 0:  # else it was done before: a busy machine
                break
        self.assertEqual(code, 75, (self.folder / "out.txt").read_text())
        self.assertIn("the same command continues", (self.folder / "out.txt").read_text())
        self.submit("tiny.job", "workstation", f"--folder={run}")
        self.assertEqual(self.result(run)["ranks"], 2)

    def stop(self, run):
        """Starts a run and sends it SIGUSR1; the exit code."""
        command = [ROOT / "jobs" / "submit.sh", "tiny.job", "workstation", f"--folder={run}", f"--program={MRMF}"]
        with open(self.folder / "out.txt", "w") as out:
            job = subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=out, stderr=out)
            end = time.monotonic() + 120
            while len(self.epochs(run)) < 3 and job.poll() is None and time.monotonic() < end:
                time.sleep(0.02)
            if launcher := self.launcher():
                os.kill(launcher, signal.SIGUSR1)
            return job.wait(120)

    def launcher(self):
        """The mpirun that works in this test's folder; it hands signals on to the ranks. None where it is done."""
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if process.joinpath("comm").read_text() == "mpirun\n" and os.readlink(process / "cwd") == str(self.folder):
                    return int(process.name)
            except OSError:
                pass  # gone meanwhile, or another user's
        return None


if __name__ == "__main__":
    unittest.main(verbosity=1)
