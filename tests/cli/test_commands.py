"""Every other subcommand through the command line."""
import json
import os

import support


class Commands(support.MrmfTest):
    def test_version_and_help(self):
        self.assertRegex(self.mrmf("--version"), r"^mrmf \d+\.\d+\.\d+ \(")
        text = self.mrmf("--help")
        for name in ("simulate", "inspect", "plan", "train", "compare", "evaluate", "predict", "bench", "plot", "presets",
                     "doctor"):
            self.assertIn(name, text)
            self.assertIn("Usage", self.mrmf(name, "--help"))

    def test_presets(self):
        self.assertIn("neuron_inverter", self.mrmf("presets"))
        self.assertIn("training.batch", self.mrmf("presets", "--keys"))

    def test_doctor(self):
        text = self.mrmf("doctor")
        for part in ("oneDNN", "MPI", "HDF5"):
            self.assertIn(part, text)
        self.assertIn("ranks      2", self.mrmf("doctor", ranks=2))

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

    def test_inspect_takes_the_shape_from_the_data_or_the_command_line(self):
        support.make_data(self.path("data.h5"))
        self.config()
        self.assertIn("sample 64x3 (from the data)", self.mrmf("inspect", "config.toml"))
        self.assertIn("sample 128x3", self.mrmf("inspect", "config.toml", "--sample", "128x3"))
        self.fails(2, "inspect", "config.toml", "--sample", "12y3", message="--sample 12y3")
        os.remove(self.path("data.h5"))
        self.fails(3, "inspect", "config.toml", message="--sample")

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
        for name in ("loss.png", "loss.svg"):
            self.mrmf("plot", "base1", "two", "-o", name)
            self.assertGreater(os.path.getsize(self.path(name)), 5000)
        self.fails(2, "plot", "nowhere", "-o", "bad.png", message="plot")
        self.assertFalse(os.path.exists(self.path("bad.png")))

    def test_bench_training_prints_json_last(self):
        text = self.mrmf("bench", "training", "--length", "160", "--batch", "8", "--steps", "2", "--threads", "1")
        self.assertGreater(json.loads(text.splitlines()[-1])["samples_per_second"], 0)

    def test_bench_layers_prints_both_sums(self):
        text = self.mrmf("bench", "layers", "--length", "160", "--batch", "8", "--steps", "2", "--threads", "1")
        for part in ("conv2", "conv3", "dense1", "dense6", "oneDNN"):
            self.assertIn(part, text)


if __name__ == "__main__":
    support.main()
