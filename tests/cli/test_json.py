"""--json of every command that prints a table: one object with the table's figures."""
import json
import subprocess

import h5py
import numpy as np

import support
import test_examples


class Json(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"), train=48, validation=20)
        self.config()

    def json(self, *words, ranks=0):
        """What the command prints on standard output, which is one object and nothing else."""
        done = subprocess.run(support.command(words, ranks), cwd=self.folder, capture_output=True, text=True, timeout=300,
                              env=support.environment())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        value = json.loads(done.stdout)
        self.assertIsInstance(value, dict)
        return value

    def json_file(self, *words):
        self.mrmf(*words, "--json", "figures.json")
        return json.loads(self.read("figures.json"))

    def test_presets_and_keys(self):
        text = self.mrmf("presets")
        presets = self.json("presets", "--json")["presets"]
        self.assertEqual([line.split()[0] for line in text.splitlines()], [preset["name"] for preset in presets])
        keys = {key["key"]: key for key in self.json("presets", "--keys", "--json")["keys"]}
        self.assertEqual(keys["training.optimizer.name"]["words"], ["adam", "adamw", "sgd", "lion"])
        self.assertEqual(keys["training.optimizer.name"]["default"], '"adam"')
        self.assertIn("conv", keys["filters"]["layers"])

    def test_doctor(self):
        text, facts = self.mrmf("doctor"), self.json("doctor", "--json")
        self.assertIn(f"{facts['mrmf']} ({facts['git']})", text)
        self.assertIn(f"{facts['memory_gib']:.1f} GiB", text)
        self.assertEqual(self.json("doctor", "--json", ranks=2)["ranks"], 2)

    def test_plan(self):
        text, plan = self.mrmf("plan", "config.toml"), self.json("plan", "config.toml", "--json")
        self.assertIn(f"{plan['cost_epochs']:.2f} epochs at full resolution", text)
        self.assertIs(plan["may_end_early"], False)
        self.config(replace=[('name = "baseline"', 'name = "auto"')])
        text, plan = self.mrmf("plan", "config.toml"), self.json("plan", "config.toml", "--json")
        self.assertIn(f": {plan['baseline_cost_epochs']:.2f}, so ", text)
        for reason in plan["auto"]["reasons"]:
            self.assertIn("auto: " + reason, text)

    def test_inspect(self):
        text, found = self.mrmf("inspect", "config.toml"), self.json("inspect", "config.toml", "--json")
        self.assertTrue(text.startswith(f"sample {found['sample']} ({found['origin']})"))
        (resolution,) = found["resolutions"]
        self.assertEqual(resolution["parameters"], sum(layer["parameters"] for layer in resolution["layers"]))
        for layer in resolution["layers"]:
            self.assertRegex(text, rf"(?m)^  {layer['name']} .* {layer['output']} +{layer['parameters']:,} ")
        stored = [layer["activation_bytes"] for layer in resolution["layers"] if layer["activation_bytes"] is not None]
        self.assertEqual(sum(stored), resolution["activation_bytes"])
        memory = found["memory_of_a_rank"]
        self.assertEqual(memory["peak_bytes"], sum(value for name, value in memory.items() if name != "peak_bytes"))
        self.assertIn(f"models {memory['model_bytes'] / 1e3:.1f} kB", text)  # "program" is measured, so the sum is another

    def test_evaluate(self):
        self.mrmf("train", "config.toml")
        text, found = self.mrmf("evaluate", "run"), self.json("evaluate", "run", "--json")
        self.assertEqual((found["samples"], found["samples_name"]), (20, "val_frames"))
        for label in found["labels"]:
            self.assertRegex(text, rf"{label['label']} +{label['mse']:.6g} +{label['mae']:.6g} +{label['r2']:.4f}")
        self.assertRegex(text, rf"mean +{found['mse']:.6g} +{found['mae']:.6g}")

    def test_evaluate_of_classes(self):
        rng = np.random.default_rng(1)
        with h5py.File(self.path("data.h5"), "w") as file:
            for name, count in (("train", 48), ("val", 20)):
                file[f"{name}_frames"] = rng.normal(size=(count, 64, 3)).astype("float32")
                file[f"{name}_unitStar_par"] = rng.integers(0, 2, count).astype("uint8")  # the third class never occurs
        self.config(replace=[("units = 2", "units = 3"), ("batch = 16", 'batch = 16\nloss = "cross_entropy"')])
        self.mrmf("train", "config.toml")
        text, found = self.mrmf("evaluate", "run"), self.json("evaluate", "run", "--json")
        self.assertRegex(text, rf"loss {found['loss']:.6f}\naccuracy {found['accuracy']:.6f} ")
        self.assertEqual([one["labels"] for one in found["classes"]], [sum(row) for row in found["confusion"]])
        self.assertEqual([one["predictions"] for one in found["classes"]], [sum(row) for row in zip(*found["confusion"])])
        right = sum(found["confusion"][i][i] for i in range(3))
        self.assertAlmostEqual(found["accuracy"], right / 20)

    def test_tune(self):
        words = ("tune", "config.toml", "--rates", "1e-3,1e-2", "--batches", "16", "--rules", "cosine", "--json")
        found = self.json(*words)
        losses = [trial["losses"][-1] for trial in found["trials"] if len(trial["losses"]) == len(found["rungs"])]
        self.assertEqual(losses, sorted(losses))
        self.assertIn(f"learning_rate = {found['trials'][0]['learning_rate']:g}", self.read(found["best"]))

    def test_compare(self):
        self.mrmf("train", "config.toml")
        (column,) = self.json("compare", "run", "--json")["columns"]
        self.assertIn(f"{column['runs'][0]['validation_loss']:.5f}", self.mrmf("compare", "run"))

    def test_benchmarks_write_theirs_to_a_file(self):
        small = ["--length", "200", "--batch", "8", "--steps", "2"]
        layers = self.json_file("bench", "layers", *small)
        self.assertEqual(layers["layers"][0]["name"].split("+")[0], "conv1")
        parts = sum(layer["forward_us"] + layer["backward_us"] for layer in layers["layers"])
        self.assertAlmostEqual(layers["step_us"], parts + layers["loss_us"] + layers["update_us"], 3)
        self.mrmf("bench", "scaling", "config.toml", "--epochs", "1", "--csv", "scaling.csv", "--json", "scaling.json")
        (point,) = json.loads(self.read("scaling.json"))["points"]
        head, line = self.read("scaling.csv").splitlines()
        self.assertEqual(list(point), head.split(","))
        self.assertEqual(point["ranks"], 1)
        self.assertAlmostEqual(point["epoch_seconds"], float(line.split(",")[3]), 5)

    def test_a_file_that_is_there_is_kept(self):
        self.write("figures.json", "mine")
        self.fails(2, "bench", "scaling", "config.toml", "--epochs", "1", "--json", "figures.json", message="--overwrite")
        self.assertEqual(self.read("figures.json"), "mine")

    def test_no_command_prints_a_table_without_it(self):
        """These print none (train: result.json is its object). Any other command is taken to print one."""
        without = {"simulate", "coarsen", "init", "import", "train", "plot", "report", "export", "predict"}
        without |= {"completion", "manual"}
        for name in test_examples.subcommands(self.mrmf("--help")):
            text = self.mrmf(name, "--help")
            if name == "bench":
                text = self.mrmf(name, "scaling", "--help")
            with self.subTest(command=name):
                if name not in without:
                    self.assertIn("--json", text)


if __name__ == "__main__":
    support.main()
