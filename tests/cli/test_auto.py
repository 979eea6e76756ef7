"""method.name = "auto": what it chooses is printed, can be written by hand, and is trained like any other plan."""
import json
import re
import unittest

import support


class Auto(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"))
        self.config(replace=[('name = "baseline"', 'name = "auto"'), ("epochs = 3", "epochs = 10")])

    def losses(self, run):
        return [(epoch["role"], epoch["validation_loss"]) for epoch in self.lines(run + "/epochs.jsonl")]

    def test_what_it_chooses_written_by_hand_trains_the_same(self):
        text = self.mrmf("plan", "config.toml")
        self.assertRegex(text, r"cost: \d+\.\d+ epochs at full resolution")
        self.assertRegex(text, r"baseline of training.epochs = 10: 10.00, so \d+ % are saved")
        self.assertIn("auto: an epoch at resolution [2] costs", text)
        with open(self.path("hand.toml"), "w") as file:
            file.write(self.mrmf("plan", "config.toml", "--toml"))
        self.assertNotIn("auto", self.mrmf("plan", "hand.toml"))
        self.mrmf("train", "config.toml")
        self.mrmf("train", "hand.toml", "--set", "run.folder=hand")
        self.assertEqual(self.losses("run"), self.losses("hand"))
        self.assertEqual({role for role, _ in self.losses("run")}, {"coarse", "finetune"})
        self.assertEqual(json.loads(self.read("run/result.json"))["schedule"], "auto")
        self.assertEqual(json.loads(self.read("hand/result.json"))["schedule"], "")
        self.assertIn("auto: an epoch at resolution [2] costs", self.read("run/log.txt"))

    def test_a_run_that_goes_on_was_still_chosen_by_it(self):
        self.mrmf("train", "config.toml")
        for epochs in (20, 21):  # the second start knows it from the first
            self.mrmf("train", "--continue", "run", "--set", f"training.epochs={epochs}")
            result = json.loads(self.read("run/result.json"))
            self.assertEqual([result["schedule"], result["stages"][-1]["epochs"]], ["auto", epochs])

    def test_ranks_choose_alike(self):
        one, three = (self.mrmf("plan", "config.toml", ranks=ranks) for ranks in (0, 3))
        self.assertEqual(re.sub(r"sums: each of 3 ranks sends .*\n", "", three), one)  # one rank sends nothing

    def test_machines_are_measured_for_it(self):
        text = self.mrmf("bench", "tables", "config.toml", "--seconds", "0.002", "--threads", "1", "-o", "tables.json")
        self.assertIn("stage 1 (coarse, resolution [2])", text)
        self.assertIn("stage 2 (finetune, resolution [1])", text)
        self.assertRegex(self.mrmf("plan", "config.toml", "--ranks", "1", "--tables", "tables.json"), r"run.grid = \[1\]")
        self.assertIn('"file_bytes"', self.mrmf("bench", "io", "config.toml"))
        rows = re.findall(r"(?m)^ +(\d) +1 +\d+ .* %$", self.mrmf("bench", "scaling", "config.toml", ranks=2))
        self.assertEqual(rows, ["1", "2"])

    def test_without_data_the_sample_must_be_given(self):
        missing = ("--set", 'data.files=["nowhere.h5"]')
        self.fails(3, "plan", "config.toml", *missing, message="--sample")
        self.assertIn("resolution [2]", self.mrmf("plan", "config.toml", *missing, "--sample", "64x2"))
        self.assertIn("too few", self.mrmf("plan", "config.toml", "--set", "training.epochs=1"))

    def test_compare_reads_its_saving_off_the_baselines_of_other_lengths(self):
        self.mrmf("train", "config.toml")
        folders = ["run"]
        for epochs in (3, 6, 9):
            folders.append(f"base{epochs}")
            self.mrmf("train", "config.toml", "--set", "method.name=baseline", "--set", f"training.epochs={epochs}",
                      "--set", f"run.folder={folders[-1]}")
        table = self.mrmf("compare", *folders)
        self.assertRegex(table.splitlines()[0], r"baseline +baseline +baseline +auto")
        row = re.search(r"^arithmetic saved at equal loss +- +- +- +(.*)$", table, re.M)
        self.assertRegex(row.group(1), r"^([<>]= )?-?\d+\.\d %$")
        saved = json.loads(self.mrmf("compare", "--json", *folders))["columns"][3]["at_equal_loss"]["gflop_saved"]
        self.assertAlmostEqual(100 * saved["mean"], float(re.sub("[<>=%]", "", row.group(1))), delta=0.051)


if __name__ == "__main__":
    support.main()
