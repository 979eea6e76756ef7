"""Every other subcommand through the command line."""
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import unittest
import unittest.mock

import h5py
import numpy as np

import support

GUIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "guide")
sys.path.append(GUIDE)
import keys  # noqa: E402  (docs/guide/keys.py)


class Commands(support.MrmfTest):
    def test_version_and_help(self):
        self.assertRegex(self.mrmf("--version"), r"^mrmf \d+\.\d+\.\d+\S* \(")
        text = self.mrmf("--help")
        for name in ("simulate", "coarsen", "init", "data", "inspect", "plan", "train", "compare", "evaluate", "predict",
                     "export", "import", "bench", "plot", "report", "presets", "doctor"):
            self.assertIn(name, text)
            self.assertIn("Usage", self.mrmf(name, "--help"))

    def test_presets(self):
        self.assertIn("neuron_inverter", self.mrmf("presets"))
        self.assertIn("training.batch", self.mrmf("presets", "--keys"))

    def test_the_guide_s_page_of_keys_is_the_program_s(self):
        printed = self.mrmf("presets", "--keys")
        with open(os.path.join(GUIDE, "keys.md"), encoding="utf-8") as file:
            self.assertEqual(file.read(), keys.page(printed), "`make keys` writes the page anew")
        listed = {row[0] for rows in keys.read(printed).values() for row in rows}
        for key in ("data.memory", "method.ROLE.batch", "run.folder", "units", "ROLE.epochs"):
            self.assertIn(key, listed)

    def test_doctor(self):
        text = self.mrmf("doctor")
        for part in ("oneDNN", "MPI", "HDF5"):
            self.assertIn(part, text)
        self.assertRegex(text, r"processor  .*, \d+ cores? usable")
        self.assertRegex(text, r"memory     \d+\.\d GiB")
        self.assertIn("ranks      2", self.mrmf("doctor", ranks=2))

    def backend_of_doctor(self, **variables):
        done = subprocess.run([support.MRMF, "doctor"], capture_output=True, text=True, timeout=120, cwd=self.folder,
                              env=dict(support.environment(), **variables))
        self.assertEqual(done.returncode, 0, done.stderr)
        return re.search(r"backend    (.*)", done.stdout).group(1)

    def test_threads_that_openmp_does_not_grant_are_done_without(self):
        few = dict(support.environment(), OMP_THREAD_LIMIT="2", OMP_DYNAMIC="true")
        self.assertTrue(self.backend_of_doctor(OMP_NUM_THREADS="4", OMP_THREAD_LIMIT="3").endswith(
            "threads: 3 (OpenMP grants no more of 4)"))
        bench = [support.MRMF, "bench", "training", "--preset", "cosmoflow", "--sample", "64x64x64x4", "--batch", "1", "--steps",
                 "1", "--threads", "4"]
        done = subprocess.run(bench, capture_output=True, text=True, timeout=240, cwd=self.folder, env=few)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("threads: 2 (OpenMP grants no more of 4)", done.stdout)

    @unittest.skipIf("ASAN_OPTIONS" in os.environ, "the address sanitizer needs more memory than the limit here")
    def test_threads_that_the_system_refuses_are_a_clear_error(self):
        def little_memory():
            resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        done = subprocess.run([support.MRMF, "doctor"], capture_output=True, text=True, timeout=120, cwd=self.folder,
                              env=dict(support.environment(), OMP_NUM_THREADS="3000"), preexec_fn=little_memory)
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"^mrmf: error: cannot start 3000 threads to compute with .*OMP_NUM_THREADS.*ulimit -u")

    def spin_counts(self, **variables):
        """What libgomp read at each start of the program, of which the last one ran."""
        usual = {name: value for name, value in support.environment().items()
                 if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
        done = subprocess.run([support.MRMF, "doctor"], capture_output=True, text=True, timeout=120, cwd=self.folder,
                              env=dict(usual, OMP_DISPLAY_ENV="verbose", **variables))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("backend  "), 1)
        return re.findall(r"GOMP_SPINCOUNT = '(\w+)'", done.stderr)

    def test_threads_that_wait_leave_their_core_soon_unless_told_otherwise(self):
        self.assertEqual(self.spin_counts()[-1], "1000")
        self.assertEqual(self.spin_counts(GOMP_SPINCOUNT="7"), ["7"])
        self.assertEqual(len(self.spin_counts(OMP_WAIT_POLICY="active")), 1)

    def test_one_setting_holds_all_kernels_to_an_instruction_set(self):
        self.enterContext(unittest.mock.patch.dict(os.environ))
        os.environ.pop("MRMF_MAX_CPU_ISA", None)  # the tests themselves may be held to one
        known = ["generic", "avx2", "avx512"]
        best = re.search(r"own kernels for (\w+)", self.backend_of_doctor()).group(1)
        for name in known[:known.index(best)]:
            self.assertIn(f"own kernels for {name} (MRMF_MAX_CPU_ISA forbids {best}), threads", self.backend_of_doctor(
                MRMF_MAX_CPU_ISA=name))
        for name in known[known.index(best):]:
            amx = " and AMX" if best == "avx512" and "amx_bf16" in pathlib.Path("/proc/cpuinfo").read_text() else ""
            self.assertIn(f"own kernels for {best}{amx}, threads", self.backend_of_doctor(MRMF_MAX_CPU_ISA=name))
        if best != "generic":  # oneDNN's own setting holds ours, and ours oneDNN
            self.assertIn(f"own kernels for generic (ONEDNN_MAX_CPU_ISA forbids {best})", self.backend_of_doctor(
                ONEDNN_MAX_CPU_ISA="SSE41"))
            done = subprocess.run([support.MRMF, "bench", "training", "--length", "400", "--batch", "2", "--steps", "1"],
                                  capture_output=True, text=True, timeout=240, cwd=self.folder,
                                  env=dict(support.environment(), MRMF_MAX_CPU_ISA="generic", ONEDNN_VERBOSE="1"))
            self.assertRegex(done.stdout, r"verbose,info,cpu,isa:.*SSE4.1\n")
        done = subprocess.run([support.MRMF, "doctor"], capture_output=True, text=True, timeout=120, cwd=self.folder,
                              env=dict(support.environment(), MRMF_MAX_CPU_ISA="avx3"))
        self.assertEqual((done.returncode, done.stderr), (
            2, "mrmf: error: MRMF_MAX_CPU_ISA=avx3: there are generic, avx2 and avx512\n"))

    @staticmethod
    def environment_without_threads():
        return {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}

    def threads_of_root(self, *cores_of_ranks):
        """The threads that rank 0 takes when each rank may use these cores."""
        words = []
        for cores in cores_of_ranks:
            words += [":"] * bool(words) + ["-n", "1", "taskset", "-c", ",".join(map(str, cores)), support.MRMF, "doctor"]
        done = subprocess.run(["mpirun", "--oversubscribe", "--bind-to", "none", *words], capture_output=True, text=True,
                              timeout=120, cwd=self.folder, env=dict(self.environment_without_threads(), OMPI_ALLOW_RUN_AS_ROOT="1",
                                                                     OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"))
        self.assertEqual(done.returncode, 0, done.stderr)
        return int(re.search(r"threads    (\d+) on rank 0", done.stdout).group(1))

    @unittest.skipUnless(shutil.which("taskset"), "taskset is missing")
    def test_ranks_share_cores_only_with_ranks_of_the_same_mask(self):
        cores = sorted(os.sched_getaffinity(0))
        self.assertEqual(self.threads_of_root(cores), len(cores))
        self.assertEqual(self.threads_of_root(cores, cores), max(1, len(cores) // 2))
        if len(cores) < 2:
            self.skipTest("the rest needs two cores")
        self.assertEqual(self.threads_of_root(cores, cores[:1]), len(cores))  # the other rank is bound elsewhere
        self.assertEqual(self.threads_of_root(cores[:1], cores), 1)
        if len(cores) > 2:  # a share of the machine, as a cpuset or Slurm gives it, is shared like the whole
            self.assertEqual(self.threads_of_root(cores[:2], cores[:2]), 1)

    def test_inspect_gives_the_published_figures(self):
        self.write("config.toml", support.CONFIG.split("[[model.layers]]")[0].replace(
            'name = "baseline"', 'name = "mrmf"\nresolutions = [[4], [2], [1]]') + '[model]\npreset = "neuron_inverter"\n')
        text = self.mrmf("inspect", "config.toml")
        blocks = text.split("resolution [")[1:]
        for block, flat, parameters, flop in zip(blocks, ("900", "1,980", "4,320"),
                                                 ("1,231,359", "1,786,479", "2,989,239"), ("7.38", "14.18", "27.95")):
            self.assertIn(f"flat features {flat},", block)
            total = [line.split() for line in block.splitlines() if line.split()[:1] == ["all"]][0]
            self.assertEqual(total[1:3], [parameters, flop])

    def test_inspect_keeps_its_columns_beside_long_names(self):
        self.write("config.toml", support.CONFIG.split("[[model.layers]]")[0])
        text = self.mrmf("inspect", "config.toml", "--set", "model.preset=resnet", "--sample", "64x3")
        lines = [line for line in text.splitlines() if line.startswith("  ") and len(line.split()) > 6
                 and line.split()[0] not in ("all", "flat", "activations")]
        self.assertIn("block2a_shortcut", [line.split()[0] for line in lines])
        column = lines[0].index("group")
        for line in lines[1:]:
            self.assertRegex(line[column:], "^(bottom|top) ")

    def test_inspect_gives_cosmoflow_s_figures(self):
        cases = {"[1]": ("2,048", "9,440,668", 18.53), "[2,1,1]": ("1,024", "7,343,516", 9.26),
                 "[2,1,2]": ("512", "6,294,940", 4.63), "[2,2,2]": ("256", "5,770,652", 2.32)}
        self.write("config.toml", support.CONFIG.split("[[model.layers]]")[0])
        for resolution, (flat, parameters, gflop) in cases.items():
            text = self.mrmf("inspect", "config.toml", "--set", "model.preset=cosmoflow", "--set",
                             f"method.resolutions=[{resolution}]")
            self.assertIn("sample 128x128x128x4 (the preset's own", text)
            self.assertIn(f"flat features {flat}, running statistics 2,024", text)
            total = [line.split() for line in text.splitlines() if line.split()[:1] == ["all"]][0]
            self.assertEqual(total[1], parameters)
            self.assertAlmostEqual(float(total[2]) / 1e3, gflop, delta=0.006)  # the figures have two decimals
        text = self.mrmf("inspect", "config.toml", "--set", "model.preset=cosmoflow_mlperf")
        total = [line.split() for line in text.splitlines() if line.split()[:1] == ["all"]][0]
        self.assertEqual(total[1], "8,907,556")
        self.assertAlmostEqual(float(total[2]) / 1e3, 68.86, delta=0.006)

    def test_inspect_takes_the_shape_from_the_data_or_the_command_line(self):
        support.make_data(self.path("data.h5"))
        self.config()
        self.assertIn("sample 64x3 (from the data)", self.mrmf("inspect", "config.toml"))
        self.assertIn("sample 128x3", self.mrmf("inspect", "config.toml", "--sample", "128x3"))
        self.fails(2, "inspect", "config.toml", "--sample", "12y3", message="--sample 12y3")
        os.remove(self.path("data.h5"))
        self.fails(3, "inspect", "config.toml", message="data.h5 is not there (looked for in ")
        self.fails(3, "inspect", "config.toml", message="--sample")
        self.fails(3, "inspect", "config.toml", "--set", "data.files=part*.h5",
                   message="no file matches part*.h5 (looked for in ")
        self.fails(2, "inspect", self.folder, message="is a folder")

    def trained(self):
        support.make_data(self.path("data.h5"))
        self.config(replace=[("epochs = 3", "epochs = 1")])
        self.mrmf("train", "config.toml")

    def test_predict_needs_no_labels(self):
        self.trained()
        self.mrmf("predict", "run", "-o", "labelled.h5")
        with h5py.File(self.path("data.h5"), "a") as file:
            del file["val_unitStar_par"]
        self.assertIn("40x2", self.mrmf("predict", "run", "-o", "plain.h5"))
        self.mrmf("predict", "run", "-o", "empty.h5", "--labels", "")
        self.mrmf("predict", "run", "-o", "ranks.h5", ranks=3)
        with h5py.File(self.path("labelled.h5")) as file:
            expected = file["prediction"][:]
        for name in ("plain.h5", "empty.h5", "ranks.h5"):
            with h5py.File(self.path(name)) as file:
                # Batches cut differently over ranks may add up in another order: a few float32 roundings.
                np.testing.assert_allclose(file["prediction"][:], expected, rtol=0, atol=1e-5)
        self.fails(3, "evaluate", "run", message="val_unitStar_par")

    def test_evaluate_names_what_it_looked_at(self):
        self.trained()
        self.assertIn("40 samples of val_frames", self.mrmf("evaluate", "run"))
        text = self.mrmf("evaluate", "run", "--samples", "train_frames", "--labels", "train_unitStar_par")
        self.assertIn("96 samples of train_frames with labels train_unitStar_par (data.h5)", text)
        self.fails(2, "evaluate", "run", "--samples", "train_frames", message="--labels")

    def test_plan_prints_the_steps_and_writes_nothing(self):
        self.config(replace=[support.MRMF_METHOD])
        text = self.mrmf("plan", "config.toml")
        self.assertEqual(len([line for line in text.splitlines() if " stage " in line]), 7)
        steps = json.loads(self.mrmf("plan", "config.toml", "--json"))["steps"]
        self.assertEqual([step["step"] for step in steps], ["train", "train", "fuse", "train", "train", "fuse", "train"])
        self.assertEqual(os.listdir(self.folder), ["config.toml"])

    def test_effective_config_reads_back_to_the_same_plan(self):
        support.make_data(self.path("data.h5"))
        self.config(replace=[support.MRMF_METHOD])
        plan = self.mrmf("plan", "config.toml")
        self.mrmf("train", "config.toml")
        self.assertEqual(self.mrmf("plan", "run/config.toml"), plan)

    def test_compare_and_plot(self):
        support.make_data(self.path("data.h5"))
        self.config(replace=[("epochs = 3", "epochs = 2")])
        for seed in (1, 2):
            self.mrmf("train", "config.toml", "--set", f"training.seed={seed}", "--set", f"run.folder=base{seed}")
        self.config(replace=[support.MRMF_METHOD])
        self.mrmf("train", "config.toml", "--set", "run.folder=two")
        table = self.mrmf("compare", "base1", "base2", "two")
        for part in ("baseline", "mrmf, 2 fusions", "validation loss", "saved against baseline"):
            self.assertIn(part, table.lower())
        self.fails(3, "compare", "base1", "nowhere", message="nowhere")
        os.mkdir(self.path("base1-tune"))
        self.write("base1-tune/trial-0123456789abcdef.json", "{}")
        warned = self.mrmf("compare", "base1", "base2", "two", "base1-tune")
        self.assertEqual(warned, table + "mrmf: warning: base1-tune: holds the trials of mrmf tune, not a run; left out\n")
        self.fails(3, "compare", "base1-tune", message="base1-tune: holds the trials of mrmf tune, not a run; ")
        for name, words in (("loss.png", ("base1", "two")), ("mean.svg", ("base1", "base2", "two", "--mean", "--x", "gflop"))):
            self.assertIn(name + ": written\n", self.mrmf("plot", *words, "-o", name))
            self.assertGreater(os.path.getsize(self.path(name)), 5000)
        drawn = self.read("mean.svg")
        for part in ("arithmetic of training [TFLOP]", "baseline, 2 seeds"):
            self.assertIn(part, drawn)
        self.assertNotIn("seed 2", drawn)
        self.fails(3, "plot", "nowhere", "-o", "bad.png", message="plot")
        self.assertFalse(os.path.exists(self.path("bad.png")))

    def test_runs_that_differ_in_one_key_are_told_apart(self):
        support.make_data(self.path("data.h5"))
        self.config()
        for rate in ("0.003", "0.001"):
            self.mrmf("train", "config.toml", "--set", "training.epochs=1", "--set", f"run.folder=rate-{rate}", "--set",
                      f"training.optimizer.learning_rate={rate}")
        runs = ("rate-0.003", "rate-0.001")
        for options in ([], ["--mean"]):
            self.mrmf("plot", *runs, *options, "--overwrite", "-o", "rates.svg")
            image = self.read("rates.svg")
            for rate in ("0.003", "0.001"):
                self.assertEqual(image.count(f"baseline, optimizer.learning_rate = {rate}"), 1, rate)
        table = subprocess.run(support.command(["compare", *runs]), cwd=self.folder, capture_output=True, text=True,
                               env=dict(support.environment(), COLUMNS="100")).stdout
        self.assertLessEqual(max(map(len, table.splitlines()[:10])), 100)
        self.assertRegex(table, r"\noptimizer.learning_rate +0.003 +0.001\n")
        self.assertEqual(len(self.mrmf("compare", "--csv", *runs).splitlines()), 3)
        self.assertEqual(len(json.loads(self.mrmf("compare", "--json", *runs))["columns"]), 2)
        self.fails(2, "compare", "--json", "--csv", *runs, message="excludes")

    def test_bench_training_prints_json_last(self):
        text = self.mrmf("bench", "training", "--length", "160", "--batch", "8", "--steps", "2", "--threads", "1")
        self.assertGreater(json.loads(text.splitlines()[-1])["samples_per_second"], 0)

    def test_bench_training_takes_the_network_of_a_configuration(self):
        plane = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "peers", "plane.toml")
        bench = ("bench", "training", plane, "--sample", "16x12x1", "--steps", "2")
        figures = json.loads(self.mrmf(*bench, "--set", "training.batch=6").splitlines()[-1])
        self.assertEqual(figures["batch"], 6)
        # 14x10 outputs of 16 filters with 9 taps, 5x3 of 32 with 144, then 2x1x32 to 64 to 5: no gradient of the input
        first, others = 2 * 14 * 10 * 16 * 9, 2 * (5 * 3 * 32 * 144 + 64 * 64 + 64 * 5)
        flop = 6 * (2 * first + 3 * others)
        self.assertAlmostEqual(figures["gflops"] * 1e9 * figures["step_seconds"], flop, delta=1e-3 * flop)
        self.assertGreater(figures["peak_gflops"], 0)
        self.assertLess(figures["gflops"], figures["peak_gflops"])
        text = self.mrmf("bench", "layers", plane, "--sample", "16x12x1", "--steps", "1")
        self.assertIn("plane.toml, sample 16x12x1, batch 64", text)
        # the loss that is configured, and updates in place
        self.mrmf(*bench, "--set", 'training.loss="cross_entropy"')
        untied = 'model.layers=[{type="locally_connected", filters=3, kernel=[3, 3]}, {type="flatten"}, {type="dense", units=2}]'
        in_place = ("--set", untied, "--set", 'training.optimizer={name="sgd", momentum=0.0}', "--set")
        self.mrmf(*bench, *in_place, "training.update_in_place=true")
        self.fails(3, *bench[:3], message="none.h5")  # without --sample the data say which shape
        self.fails(2, *bench, "--preset", "resnet", message="excludes")
        self.fails(2, "bench", "training", "--set", "training.batch=6", message="requires")

    def test_bench_refuses_what_it_cannot_do(self):
        for words in (("--steps", "0"), ("--batch", "-1"), ("--length", "0"), ("--threads", "-1"),
                      ("--backend", "onednm")):
            self.fails(2, "bench", "layers" if "--steps" in words else "training", *words, message=words[0])

    def test_bench_batch_is_the_presets_own_and_fits_in_memory(self):
        text = self.mrmf("bench", "training", "--preset", "unet", "--sample", "16x16x1", "--steps", "1")
        self.assertEqual(json.loads(text.splitlines()[-1])["batch"], 8)
        self.fails(2, "bench", "training", "--preset", "cosmoflow", "--batch", "200000",
                   message="--batch 200000: cosmoflow of samples 128x128x128x4 takes")

    def test_bench_layers_prints_both_sums(self):
        text = self.mrmf("bench", "layers", "--length", "160", "--batch", "8", "--steps", "2", "--threads", "1")
        for part in ("conv2", "conv3", "dense1", "dense6", "oneDNN"):
            self.assertIn(part, text)

    def test_bench_layers_gives_onednn_the_same_kernels(self):
        # No thread does 300 GFLOP/s. A kernel of one axis in place of three would seem to do nine times what it does.
        self.mrmf("bench", "layers", "--preset", "resnet", "--sample", "24x24x24x2", "--batch", "2", "--steps", "2", "--threads", "1",
                  "--json", "layers.json")
        layers = {layer["name"].split("+")[0]: layer for layer in json.loads(self.read("layers.json"))["layers"]}
        conv = layers["block1a_conv2"]  # alone, or in one pass with what is behind it
        seconds = 1e-6 * (conv["onednn_forward_us"] + conv["onednn_backward_us"])
        self.assertLess(conv["flop"] / seconds, 300e9)


if __name__ == "__main__":
    support.main()
