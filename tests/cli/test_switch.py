"""method.switch = "slope": a coarse phase ends when it stops paying, and what its last probe has trained is kept."""
import json

import h5py
import support

METHOD = ('name = "baseline"', """name = "mrmf"
top = "interpolated"
resolutions = [[2], [1]]
switch = "slope"
probe = 0.4
coarse = { rule = "constant" }
stop = { coarse = { epochs = 8 }, finetune = { epochs = 2 } }""")
# A coarse model that learns nothing more pays nothing; the other way round, a last phase that learns nothing.
STALE = ("--set", "method.coarse.learning_rate=1e-12")
LIVELY = ("--set", "method.finetune.learning_rate=1e-12")
# The same bits on any number of ranks.
SHARDS = ("--set", "run.deterministic=true", "--set", "data.shards=6")


class Switch(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"))
        self.config(replace=[METHOD])

    def train(self, folder, *more, **options):
        self.mrmf("train", "config.toml", "--set", f"run.folder={folder}", *more, **options)
        return self.outcome(folder)

    def outcome(self, folder):
        """The losses of every epoch, what each cost, why phases ended, and the model."""
        arrays = {}
        with h5py.File(self.path(folder + "/checkpoints/final.h5")) as model:
            model.visititems(lambda name, item: arrays.update({name: item[()].tobytes()})
                             if isinstance(item, h5py.Dataset) and item.dtype == "float32" else None)
        return ([(e["train_loss"], e["validation_loss"], e["gflop"]) for e in self.lines(folder + "/epochs.jsonl")],
                [(s["epochs"], s["reason"]) for s in self.lines(folder + "/stages.jsonl")], arrays)

    def test_it_leaves_a_coarse_phase_that_learns_no_more_and_stays_in_one_that_does(self):
        epochs, phases, _ = self.train("stale", *STALE)
        self.assertEqual(phases, [(4, "slope"), (2, "epochs")])
        self.assertEqual(self.read("stale/log.txt").count("probe after coarse epoch"), 2)
        # Both probes validate. What the first one trained is lost; what the second one did begins the last phase.
        gflop = [gflop for _, _, gflop in epochs]
        self.assertEqual(gflop[0], gflop[2])
        self.assertGreater(gflop[3], gflop[2])
        self.assertGreater(gflop[1], gflop[3])
        self.assertEqual(gflop[4], gflop[5])
        full = self.lines("stale/epochs.jsonl")[4]
        self.assertEqual(full["samples"], 96)
        # A probe of 0.4 epochs has two halves of a step each.
        self.assertAlmostEqual(gflop[1] - gflop[3], (2 * 16 * 3) / (96 * 3 + 40) * gflop[4], places=9)

        _, phases, _ = self.train("lively", *LIVELY)
        self.assertEqual(phases, [(8, "epochs"), (2, "epochs")])
        self.assertEqual(self.read("lively/log.txt").count("probe after coarse epoch"), 3)

    def test_probes_change_nothing_of_the_coarse_model_nor_of_what_follows(self):
        # The same run with four coarse epochs fixed: transferred in the same place, it ends with the same model.
        _, _, by_slope = self.train("slope", *STALE)
        epochs, _, fixed = self.train("fixed", *STALE, "--set", "method.switch=epochs", "--set",
                                      "method.stop.coarse.epochs=4")
        self.assertEqual(by_slope, fixed)
        self.assertEqual([e[:2] for e in self.outcome("slope")[0]], [e[:2] for e in epochs])

    def test_ranks_do_not_change_it(self):
        one = self.train("one", *STALE, *SHARDS, "--set", "training.batch=12")
        self.assertEqual(self.train("two", *STALE, *SHARDS, "--set", "training.batch=6", ranks=2), one)
        usual = self.train("usual", *STALE, "--set", "training.batch=8", ranks=2)
        self.assertEqual(usual[1], one[1])

    def test_a_run_that_was_killed_anywhere_ends_alike(self):
        words = ("--set", "run.checkpoint.epochs=1", *STALE)
        straight = self.train("straight", *words)
        for epochs in range(1, 6):
            self.kill_after(epochs, "train", "config.toml", "--set", "run.folder=run", *words)
        self.assertEqual(self.train("run", *words), straight)

    def test_a_stop_after_the_last_probe_repeats_its_training(self):
        # The coarse phase's end is saved, and nothing of the last phase: continued from there, the probe is made again.
        straight = self.train("straight", *STALE)
        words = (*STALE, "--set", "run.checkpoint.epochs=1")
        self.kill_after(4, "train", "config.toml", "--set", "run.folder=run", *words)
        self.assertEqual(self.train("run", *words), straight)

    def test_streamed_samples_and_statistics(self):
        words = (*STALE, "--set", "training.precise_batch_norm=2")
        self.assertEqual(self.train("stream", *words, "--set", "data.load=stream"), self.train("memory", *words))

    def test_the_plan_is_an_upper_bound(self):
        plan = self.mrmf("plan", "config.toml")
        self.assertIn("until it stops paying (every 2 epochs), or 8 epochs", plan)
        self.assertIn("cost: at most ", plan)
        self.assertTrue(json.loads(self.mrmf("plan", "config.toml", "--json"))["may_end_early"])

    def test_what_it_does_not_go_with_is_refused(self):
        for words in (("method.top=dense",), ("method.resolutions=[[4],[2],[1]]",), ("method.transfer=best",),
                      ("method.curve=run",)):
            self.fails(2, "plan", "config.toml", *(w for word in words for w in ("--set", word)),
                       message='method.switch = "slope"')
        self.fails(2, "train", "config.toml", "--set", "method.finetune.batch=96",
                   message='method.switch = "slope" needs two steps or more in an epoch')


if __name__ == "__main__":
    support.main()
