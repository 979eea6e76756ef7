"""method.name = "auto" and detail that averages lose: it plans the baseline beforehand where labels depend on it."""
import json
import re
import unittest

import h5py
import numpy as np

import support

CONFIG = """
[data]
files      = ["texture.h5"]
train      = { samples = "train_fields", labels = "train_parameters" }
validation = { samples = "val_fields",   labels = "val_parameters" }
[model]
layers = [ { type = "conv", filters = 2, kernel = [3, 3], padding = "same" }, { type = "relu" },
           { type = "max_pool", window = [2, 2] }, { type = "flatten" }, { type = "dense", units = 3 } ]
[training]
optimizer = { name = "adam", learning_rate = 3e-3 }
batch = 16
epochs = 4
[method]
name = "auto"
[run]
folder = "run"
threads = 1
"""
LOST = "auto: the labels depend on detail that averages of 2 lose: a linear fit on 320 training samples leaves "
KEPT = "auto: no sign that the labels depend on detail that averages of 2 lose: a linear fit on 320 training samples leaves "
HEAT = ("--set", 'data.files=["heat.h5"]')
IGNORE = ("--set", "method.detail=ignore")


class Detail(support.MrmfTest):
    def setUp(self):
        super().setUp()
        for kind in ("texture", "heat"):
            self.mrmf("simulate", "fields", "--kind", kind, "--samples", "400", "--size", "64", "--output", f"{kind}.h5")
        self.write("config.toml", CONFIG)

    def test_the_plan_is_the_baseline_where_labels_depend_on_the_finest_detail(self):
        texture = self.mrmf("plan", "config.toml")
        self.assertRegex(texture, LOST + r"0\.\d\d of their variance unexplained without the finest detail and 0\.\d\d with it")
        self.assertIn("auto: so the plan is the baseline\n", texture)
        self.assertIn("cost: 4.00 epochs", texture)
        heat = self.mrmf("plan", "config.toml", *HEAT)
        self.assertRegex(heat, KEPT + r"0\.\d\d of their variance unexplained without the finest detail and 0\.\d\d with it")
        self.assertNotIn("so the plan is the baseline", heat)
        ignored = self.mrmf("plan", "config.toml", *IGNORE)
        self.assertIn('lose was not looked at: method.detail = "ignore"', ignored)
        self.assertNotIn("so the plan is the baseline", ignored)
        self.assertIn("lose was not looked at: only the shape of a sample is known",
                      self.mrmf("plan", "config.toml", "--sample", "64x64x1"))

    def test_json_has_the_numbers(self):
        for words, loses in (((), True), (HEAT, False)):
            plan = json.loads(self.mrmf("plan", "config.toml", "--json", *words))
            detail = plan["auto"]["detail"]
            self.assertEqual([detail["samples"], detail["loses"]], [320, loses])
            ratio = detail["unexplained_with_finest"] / detail["unexplained_without_finest"]
            self.assertEqual(ratio < 0.75, loses, detail)
            self.assertEqual(plan["method"], "baseline" if loses else "mrmf")
        self.assertNotIn("detail", json.loads(self.mrmf("plan", "config.toml", "--json", *IGNORE))["auto"])

    def test_inspect_shows_the_networks_of_that_plan(self):
        self.assertNotIn("[2,2]", self.mrmf("inspect", "config.toml"))
        self.assertIn("[2,2]", self.mrmf("inspect", "config.toml", *HEAT))

    def test_ranks_decide_alike(self):
        one, two = (self.mrmf("plan", "config.toml", ranks=ranks) for ranks in (0, 2))
        self.assertEqual(re.sub(r"sums: each of 2 ranks sends .*\n", "", two), one)  # one rank sends nothing

    def test_a_run_is_trained_so_and_goes_on_so(self):
        output = self.mrmf("train", "config.toml", ranks=2)
        self.assertIn(LOST, output)
        self.assertIn("so the plan is the baseline", self.read("run/log.txt"))
        self.assertEqual({epoch["role"] for epoch in self.lines("run/epochs.jsonl")}, {"baseline"})
        self.assertEqual(json.loads(self.read("run/result.json"))["schedule"], "auto")
        self.mrmf("train", "--continue", "run", "--set", "training.epochs=5", ranks=2)
        self.assertEqual(json.loads(self.read("run/result.json"))["schedule"], "auto")

    def test_a_run_that_was_killed_goes_on_whether_it_looks_or_not(self):
        words = ("train", "config.toml", *HEAT, "--set", "run.checkpoint.epochs=1", "--set", "training.epochs=30")
        self.mrmf(*words, "--set", "run.folder=whole")
        whole = [epoch["validation_loss"] for epoch in self.lines("whole/epochs.jsonl")]
        self.kill_after(2, *words)
        self.assertIn("continues", self.mrmf(*words, *IGNORE))  # what was chosen is the same
        self.assertEqual([epoch["validation_loss"] for epoch in self.lines("run/epochs.jsonl")], whole)
        self.assertEqual({epoch["role"] for epoch in self.lines("run/epochs.jsonl")}, {"coarse", "finetune"})

    def test_rows_that_are_left_out_are_so_in_both(self):
        with h5py.File(self.path("texture.h5"), "r+") as file:
            file["train_fields"][10:40, 3, 4] = np.nan
        self.fails(3, "plan", "config.toml", message="NaN")
        skip = ("--set", "data.not_finite=skip")
        line = [line for line in self.mrmf("plan", "config.toml", *skip).splitlines() if "linear fit" in line]
        self.assertIn("on 290 training samples", line[0])
        self.assertIn(line[0], self.mrmf("train", "config.toml", *skip))


if __name__ == "__main__":
    support.main()
