"""`mrmf ensemble`: designs, members of every kind, journals that survive kills, and what is collected."""
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

import h5py
import numpy as np
import support

HEAT = """
ensemble.folder = "ens"
simulate = { simulator = "heat", size = 16 }
[design]
kind = "sobol"
members = 24
keys.velocity_x = [-0.1, 0.1]
keys.log10_diffusivity = [-4, -2.5]
"""

# Writes what it got into a copy of an HDF5 file. Members are many processes: it imports nothing that takes long.
MEMBER = """
import struct, sys
a, b, out = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
with open("{template}", "rb") as file:
    data = bytearray(file.read())
struct.pack_into("<6f", data, {offset}, *(2 * [a, a + b, a + 2 * b]))
with open(out, "wb") as file:
    file.write(data)
"""

COMMAND = """
ensemble = {{ folder = "ens", retries = {retries}, side_by_side = 2 }}
command = {{ line = "{line}", collect = {{ field = [2, 3] }} }}
design = {{ kind = "grid", keys.a = {{ values = [1, 2, 4] }}, keys.b = {{ from = 0, to = 1, count = 2 }} }}
"""


class Ensemble(support.MrmfTest):
    def ensemble(self, *words, **options):
        return self.mrmf("ensemble", "spec.toml", *words, **options)

    def data(self, folder="ens"):
        with h5py.File(self.path(folder + "/data.h5")) as file:
            return {name: file[name][()] for name in file}

    def table(self, folder="ens"):
        with open(self.path(folder + "/members.csv"), newline="") as file:
            return list(csv.DictReader(file))

    def journal(self, folder="ens"):
        """The members that the journals call done, one entry a line."""
        found = []
        for root, _, names in os.walk(self.path(folder)):
            for name in names:
                if name.startswith("journal"):
                    with open(os.path.join(root, name)) as file:
                        found += [json.loads(line[17:])["member"] for line in file if '"row"' in line and line.endswith("}\n")]
        return found

    def test_simulated_members_are_collected_and_train_reads_them(self):
        self.write("spec.toml", HEAT)
        output = self.ensemble()
        self.assertIn("24 of 24 members are done; 24 were made", output)
        data = self.data()
        self.assertEqual(data["fields"].shape, (24, 16, 16, 3))
        self.assertEqual(data["parameters"].shape, (24, 2))
        self.assertEqual(list(data["member"]), list(range(24)))
        for column, (low, high) in enumerate(((-0.1, 0.1), (-4, -2.5))):
            values = data["parameters"][:, column]
            self.assertGreaterEqual(values.min(), low)
            self.assertLessEqual(values.max(), high)
            np.testing.assert_allclose(data["labels"][:, column], 2 * (values - low) / (high - low) - 1, atol=1e-6)
        field = data["fields"].astype("f8").reshape(24, -1, 3)
        summaries = data["summaries"].reshape(24, 3, 4)
        np.testing.assert_allclose(summaries[..., 0], field.mean(1), atol=1e-5)
        np.testing.assert_allclose(summaries[..., 1], field.std(1), rtol=1e-4)
        np.testing.assert_array_equal(summaries[..., 3], field.max(1).astype("f4"))
        self.assertEqual(len(self.table()), 24)
        self.assertLessEqual(len(os.listdir(self.path("ens"))), 7)
        # The design that it followed can be followed again as a list, to the same bytes.
        self.ensemble("--design", "points.csv")
        self.write("list.toml", HEAT.split("[design]")[0].replace('"ens"', '"ens2"') + 'design = { kind = "list", file = "points.csv" }')
        self.mrmf("ensemble", "list.toml")
        np.testing.assert_array_equal(self.data("ens2")["fields"], data["fields"])
        with h5py.File(self.path("points.h5"), "w") as file:
            file["points"] = data["parameters"]
        self.write("hdf5.toml", HEAT.split("[design]")[0].replace('"ens"', '"ens3"') +
                   'design = { kind = "list", file = "points.h5", dataset = "points", columns = ["velocity_x", "log10_diffusivity"] }')
        self.mrmf("ensemble", "hdf5.toml")
        np.testing.assert_array_equal(self.data("ens3")["fields"], data["fields"])
        # A second call makes nothing.
        self.assertIn("24 of 24 members are done; 0 were made", self.ensemble())
        layers = support.layers("conv filters=4 kernel=[3,3]", "relu", "flatten", "dense units=2")
        self.write("train.toml", self.read("ens/data.toml") + '[training]\nbatch = 4\nepochs = 1\n[method]\nname = "baseline"\n'
                   '[run]\nfolder = "run"\nthreads = 1\n' + layers)
        self.mrmf("train", "train.toml")

    def test_killed_at_any_time_nothing_is_lost_or_done_twice(self):
        self.write("spec.toml", """
ensemble = { folder = "ens", side_by_side = 2 }
simulate = { simulator = "neuron", milliseconds = 30 }
design = { kind = "latin-hypercube", members = 400, keys.g_pas_axonal = [-0.5, 0.5], keys.g_pas_somatic = [-0.5, 0.5] }
""")
        kills = 0
        for wanted in (1, 100, 250):
            process = self.launch("ensemble", "spec.toml")
            journal = self.path("ens/journal.txt")
            while process.poll() is None:
                try:
                    with open(journal) as file:
                        if file.read().count("\n") >= wanted:
                            break
                except FileNotFoundError:
                    pass
                time.sleep(0.002)
            kills += process.poll() is None
            process.kill()
            process.communicate()
        self.assertGreater(kills, 0)
        before = len(set(self.journal()))
        output = self.ensemble()
        self.assertIn(f"400 members; {before} are done", output)
        self.assertEqual(sorted(self.journal()), list(range(400)))
        data = self.data()
        self.assertEqual(list(data["member"]), list(range(400)))
        self.write("other.toml", self.read("spec.toml").replace('"ens"', '"other"'))
        self.mrmf("ensemble", "other.toml")
        np.testing.assert_array_equal(self.data("other")["frames"], data["frames"])
        self.assertLessEqual(sum(len(files) for _, _, files in os.walk(self.path("ens"))), 10)

    def test_a_damaged_row_or_line_is_made_anew(self):
        self.write("spec.toml", HEAT)
        self.ensemble()
        fields = self.data()["fields"]
        with open(self.path("ens/rows.bin"), "r+b") as file:
            file.seek(5 * 16 * 16 * 3 * 4 + 100)
            file.write(b"damage")
        lines = self.read("ens/journal.txt").splitlines()
        lines[11] = lines[11].replace('"try":1', '"try":9')
        self.write("ens/journal.txt", "\n".join(lines) + "\n" + lines[3][:40])
        output = self.ensemble()
        self.assertIn("journal.txt:12: damaged", output)
        self.assertIn("the rows of 1 members are damaged, of 5 first", output)
        np.testing.assert_array_equal(self.data()["fields"], fields)

    def test_trainings_as_members(self):
        support.make_data(self.path("data.h5"))
        self.config()
        self.write("spec.toml", """
ensemble = { folder = "ens", side_by_side = 2 }
train = { config = "config.toml", set = ["training.epochs=1"] }
design = { kind = "grid", keys.training.optimizer.learning_rate = { values = [1e-3, 3e-3] }, keys.training.optimizer.rule = { values = ["cosine", "linear"] } }
""")
        self.ensemble()
        rows = self.table()
        self.assertEqual([row["training.optimizer.rule"] for row in rows], ["cosine", "linear"] * 2)
        for number, row in enumerate(rows):
            result = json.loads(self.read(f"ens/members/{number:06}/result.json"))
            self.assertEqual(float(row["validation_loss"]), result["validation_loss"])
        np.testing.assert_array_equal(self.data()["results"][:, 0], [float(row["validation_loss"]) for row in rows])
        self.assertEqual(len({row["validation_loss"] for row in rows}), 4)

        # Ranks in groups, each of which trains a member together: the same numbers as one run of two ranks.
        self.write("pairs.toml", self.read("spec.toml").replace('"ens", side_by_side', '"pairs", ranks_per_member').replace("[1e-3, 3e-3]", "[1e-3]"))
        self.mrmf("ensemble", "pairs.toml", ranks=2)
        self.mrmf("train", "config.toml", *(word for setting in ("training.epochs=1", "training.optimizer.learning_rate=1e-3",
                                                                 "training.optimizer.rule=linear") for word in ("--set", setting)), ranks=2)
        self.assertEqual(float(self.table("pairs")[1]["validation_loss"]), json.loads(self.read("run/result.json"))["validation_loss"])
        self.fails(2, "ensemble", "pairs.toml", ranks=3, message="3 ranks are not whole groups of ensemble.ranks_per_member = 2")

    def test_rounds_add_members_where_models_disagree(self):
        layers = support.layers("flatten", "dense units=8", "tanh", "dense units=12")
        self.write("surrogate.toml", '[data]\nfiles = ["x.h5"]\ntrain = { samples = "labels", labels = "summaries" }\nsplit = { column = "split" }\n'
                   'normalise = { labels = "mean_std" }\n[training]\nbatch = 4\nepochs = 2\n[method]\nname = "baseline"\n[run]\nfolder = "r"\n'
                   'threads = 1\n' + layers)
        self.write("spec.toml", HEAT.replace("members = 24", "members = 12") + """
[ensemble.rounds]
count = 2
members = 5
models = 2
candidates = 64
config = "surrogate.toml"
""")
        output = self.ensemble()
        self.assertIn("round 2 of 2: 2 models of 17 members disagree by", output)
        data = self.data()
        self.assertEqual(list(data["member"]), list(range(22)))
        rounds = self.lines("ens/rounds/rounds.jsonl")
        added = np.array([point for one in rounds for point in one["points"]])
        np.testing.assert_array_equal(data["parameters"][12:], added)
        for one in rounds:
            self.assertGreater(one["disagreement_chosen"], one["disagreement"])
        self.assertEqual(len({tuple(point) for point in added}), 10)
        self.assertIn("0 were made", self.ensemble())
        self.fails(2, "ensemble", "spec.toml", "--part", "0/2", message="ensemble.rounds needs all members at once")

    def command(self, line, retries=1):
        template = self.path("template.h5")
        with h5py.File(template, "w") as file:
            file["field"] = np.zeros((2, 3), "<f4")
            offset = file["field"].id.get_offset()
        self.write("member.py", MEMBER.format(template=template, offset=offset))
        python = f"/usr/bin/python3 -I -S {self.path('member.py')}"
        self.write("spec.toml", COMMAND.format(line=line.format(python=python), retries=retries))

    def test_a_command_of_ones_own(self):
        self.command("{python} {{a}} {{b}} {{output}}")
        self.ensemble()
        data = self.data()
        expected = [np.full((2, 3), a) + np.arange(3) * b for a in (1, 2, 4) for b in (0, 1)]
        np.testing.assert_allclose(data["field"], expected)
        self.assertFalse(os.path.exists(self.path("ens/work")))

    def test_failed_members_are_tried_again_and_named(self):
        self.command("[ {{member}} != 3 ] || {{{{ echo cannot converge >&2; exit 5; }}}}; {python} {{a}} {{b}} {{output}}", retries=2)
        output = self.fails(4, "ensemble", "spec.toml", message="1 of 6 members failed after 3 tries: 3; member 3: exit code 5: cannot converge")
        self.assertIn("5 of 6 members are done", output)
        self.assertEqual(list(self.data()["member"]), [0, 1, 2, 4, 5])
        row = self.table()[3]
        self.assertEqual((row["status"], row["tries"], row["reason"]), ("failed", "3", "exit code 5: cannot converge"))
        # Given up, until it is asked for; and not an error where that many may fail.
        self.assertIn("0 were made", self.ensemble("--set", "ensemble.most_failed=1"))
        self.command("{python} {{a}} {{b}} {{output}}")

    def test_a_member_writes_into_its_own_folder_alone(self):
        self.command("echo x > ../../stray.txt; {python} {{a}} {{b}} {{output}}", retries=0)
        # Where the kernel can, it refuses that; else the file is found.
        process = self.launch("ensemble", "spec.toml")
        output = process.communicate()[0]
        stray = os.path.exists(self.path("ens/stray.txt"))
        self.assertEqual(process.returncode, 4 if stray else 0, output)
        self.assertEqual("outside of its own folder" in output, stray)
        self.command("set -e; echo x > ../../stray.txt; {python} {{a}} {{b}} {{output}}", retries=0)
        self.write("spec.toml", self.read("spec.toml").replace('"ens"', '"ens2"'))
        output = self.fails(4, "ensemble", "spec.toml", message="stray.txt")
        self.assertRegex(output, "writes? ?into its own folder|outside of its own folder")
        self.write("spec.toml", self.read("spec.toml").replace("collect =", 'output = "../x.h5", collect ='))
        self.fails(2, "ensemble", "spec.toml", message='command.output = "../x.h5" is outside of the member\'s folder')

    def test_a_signal_stops_it_and_the_same_command_continues(self):
        self.command("sleep 0.4; {python} {{a}} {{b}} {{output}}")
        process = self.launch("ensemble", "spec.toml")
        while process.poll() is None and not self.journal_lines():
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        output = process.communicate()[0]
        if process.returncode == 0:
            self.skipTest("it was done before the signal came")
        self.assertEqual(process.returncode, 75, output)
        self.ensemble()
        self.assertEqual(sorted(self.journal()), list(range(6)))

    def journal_lines(self):
        try:
            return self.read("ens/journal.txt").count("\n")
        except FileNotFoundError:
            return 0

    def test_parts_and_ranks_share_the_members(self):
        self.write("spec.toml", HEAT)
        self.ensemble("--part", "0/3")
        self.ensemble("--part", "2/3")
        self.assertFalse(os.path.exists(self.path("ens/data.h5")))
        output = self.ensemble(ranks=2)  # the missing part, then all is collected
        self.assertIn("24 of 24 members are done; 8 were made", output)
        # Of parts the last one collects, and leaves few files.
        self.write("thirds.toml", HEAT.replace('"ens"', '"thirds"'))
        for part in (1, 0, 2):
            self.assertFalse(os.path.exists(self.path("thirds/data.h5")))
            shutil.copytree(self.path("thirds/part-1"), self.path("before"), dirs_exist_ok=True) if part == 2 else None
            self.mrmf("ensemble", "thirds.toml", "--part", f"{part}/3")
        self.assertEqual(set(os.listdir(self.path("thirds"))) & {"part-0", "part-1"}, set())
        self.assertEqual(sorted(self.journal("thirds")), list(range(24)))
        # As if it had been killed after it took what a part had kept, and before that was removed.
        shutil.copytree(self.path("before"), self.path("thirds/part-1"))
        self.write("thirds/data.h5.partial-0123456789abcdef", "")
        output = self.mrmf("ensemble", "thirds.toml", ranks=2)
        self.assertIn("24 of 24 members are done; 0 were made", output)
        self.assertEqual(sorted(self.journal("thirds")), list(range(24)))
        self.assertEqual(len(os.listdir(self.path("thirds"))), 7)
        np.testing.assert_array_equal(self.data("thirds")["fields"], self.data()["fields"])
        self.assertEqual(sorted(self.journal()), list(range(24)))
        alone = self.data()["fields"]
        self.write("other.toml", HEAT.replace('"ens"', '"other"'))
        self.mrmf("ensemble", "other.toml", ranks=3)
        self.assertEqual(sorted(self.journal("other")), list(range(24)))
        self.assertEqual(len(os.listdir(self.path("other"))), 7)
        np.testing.assert_array_equal(self.data("other")["fields"], alone)
        for text in ("3/3", "1", "a/3", "1/1"):
            self.fails(2, "ensemble", "spec.toml", "--part", text, message="--part " + text)

    def test_one_folder_one_ensemble_one_process(self):
        self.command(f"[ -e {self.path('fast')} ] || sleep 30; {{python}} {{{{a}}}} {{{{b}}}} {{{{output}}}}")
        process = self.launch("ensemble", "spec.toml")
        while process.poll() is None and not os.path.exists(self.path("ens/work/0")):
            time.sleep(0.01)
        self.fails(2, "ensemble", "spec.toml", message=f"ens is being worked on by process {process.pid} of ")
        # Who was killed holds nothing, even where nobody has waited for its end.
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        self.write("fast", "")
        self.ensemble()
        process.communicate()
        self.write("spec.toml", self.read("spec.toml").replace("sleep 30; ", ""))
        self.fails(2, "ensemble", "spec.toml", message="ens holds another ensemble: it has \"command = [ -e")
        os.makedirs(self.path("full"))
        self.write("full/mine.txt", "")
        self.fails(2, "ensemble", "spec.toml", "--set", "ensemble.folder=full", message="full is not empty and no ensemble's (there is mine.txt)")

    def test_bad_specs(self):
        self.write("spec.toml", HEAT)
        for setting, message in {
                "design.keys.velocity_z=[0,1]": "the design's key 'velocity_z' is no key of the simulator heat; did you mean 'velocity_x'?",
                "design.keys.size=[16,32]": "'size' is the same for all members; set it in [simulate]",
                "design.keys.velocity_y=[-5,1]": "'velocity_y' is from -5 to 1; the simulator heat takes -1 to 1",
                "design.keys.velocity_y=[1,-1]": "goes from 1 to -1",
                "design.keys.velocity_y=3": "design.keys.velocity_y is 3",
                "design.kind=sobel": 'did you mean "sobol"?',
                "design.members=0": "design.members is missing",
                "simulate.simulator=heet": 'did you mean "heat"?',
                "simulate.sise=3": "unknown key 'simulate.sise'; did you mean 'simulate.size'?",
                "ensemble.retry=3": "unknown key 'ensemble.retry'; did you mean 'ensemble.retries'?",
                "design.file=x.csv": 'design.file is for design.kind = "list"',
                "train.config=x.toml": "[simulate] and [train] both say what members are"}.items():
            with self.subTest(setting):
                self.fails(2, "ensemble", "spec.toml", "--set", setting, message=message)
        grid = HEAT.replace('"sobol"', '"grid"').replace("[-0.1, 0.1]", "{ values = [0, 0.1] }").replace("[-4, -2.5]", "{ from = -4, to = -3, count = 3 }")
        self.write("spec.toml", grid)
        self.fails(2, "ensemble", "spec.toml", message="the design's grid of 2 x 3 has 6 values, fewer than design.members = 24")
        self.write("points.csv", "velocity_x\n0\n0.1\n")
        lists = HEAT.split("[design]")[0] + 'design = { kind = "list", file = "points.csv", members = 3 }'
        self.write("spec.toml", lists)
        self.fails(2, "ensemble", "spec.toml", message="points.csv has 2 values, fewer than design.members = 3")
        self.write("points.csv", "velocity_q\n0\n0.1\n0\n")
        self.fails(2, "ensemble", "spec.toml", message="'velocity_q' is no key of the simulator heat; did you mean 'velocity_x'?")
        self.write("points.csv", "velocity_x\n0\n0.1\nx\n")
        self.fails(3, "ensemble", "spec.toml", message="points.csv:4: 'x' is no number")
        support.make_data(self.path("data.h5"))
        self.config()
        train = 'ensemble.folder = "ens"\ntrain.config = "config.toml"\ndesign = { kind = "sobol", members = 2, keys.%s = [1, 2] }'
        self.write("spec.toml", train % "training.epoch")
        self.fails(2, "ensemble", "spec.toml", message="'training.epoch' is no key of a configuration; did you mean 'training.epochs'?")
        self.write("spec.toml", train % "run.folder")
        self.fails(2, "ensemble", "spec.toml", message="run.folder is the member's own")
        self.command("{python} {{a}} {{c}} {{output}}")
        self.fails(2, "ensemble", "spec.toml", message="command.line has {c}, which is no key of the design")
        self.command("{python} {{a}} 1 {{output}}")
        self.fails(2, "ensemble", "spec.toml", message="the design's key 'b' is not in command.line")
        self.fails(2, "ensemble", "none.toml", message="none.toml: there is no such file")
        self.assertFalse(os.path.exists(self.path("ens")))

    def test_all_keys_are_in_the_guide(self):
        guide = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "guide", "ensembles.md")
        with open(guide, encoding="utf-8") as file:
            text = file.read()
        keys = re.findall(r"^(ensemble|design|simulate|train|command)(\.\S+)", self.mrmf("ensemble", "--keys"), re.M)
        self.assertGreater(len(keys), 20)
        for section, key in keys:
            self.assertIn(f"`{section}{key}`", text)


if __name__ == "__main__":
    support.main()
