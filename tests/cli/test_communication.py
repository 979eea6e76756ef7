"""training.communication and training.momenta: how the values that ranks add travel, and whose Lion's momenta are."""
import glob
import json
import os
import signal
import unittest.mock

import h5py
import numpy as np

import support

LION = ['training.optimizer={name = "lion", learning_rate = 1e-3}']
SCHEMES = ("fp32", "bf16", "int8", "levels8", "levels8-l0", "levels4", "vote")
EMULATED = ["run.deterministic=true", "data.shards=12", "training.batch=24"]


def words(*settings):
    return [word for setting in settings for word in ("--set", setting)]


class Communication(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"), train=96, validation=40)
        self.config()

    def train(self, run, *settings, ranks=2):
        self.mrmf("train", "config.toml", *words(f"run.folder={run}", *LION, *settings), ranks=ranks if ranks > 1 else 0)
        return self.left(run)

    def left(self, run):
        """Losses of every epoch, and every array of the last checkpoint."""
        return [(e["train_loss"], e["validation_loss"]) for e in self.epochs(run)], self.arrays(run)

    def epochs(self, run):
        return self.lines(run + "/epochs.jsonl")

    def arrays(self, run):
        arrays = {}
        (last,) = glob.glob(self.path(f"{run}/checkpoints/phase-*.h5"))
        with h5py.File(last) as file:
            file.visititems(lambda name, item: arrays.update({name: item[()].tobytes()})
                            if isinstance(item, h5py.Dataset) and item.dtype == "float32" else None)
        self.assertGreater(len(arrays), 5)
        return arrays

    def test_one_rank_computes_plain_lion_whatever_is_set(self):
        losses, _ = self.train("plain", ranks=1)
        for scheme in SCHEMES:
            settings = ["training.momenta.rule=local"] if scheme in ("fp32", "bf16") else []
            self.assertEqual(self.train(scheme, f"training.communication={scheme}", *settings, ranks=1)[0], losses)

    def test_directions_in_float32_with_averaged_momenta_are_exact_lion(self):
        exact, _ = self.train("exact")
        same, _ = self.train("same", "training.momenta.rule=every", "training.momenta.every=1")
        # A gradient that is rounding alone has a sign, too, and a step has the length of the rate: as with Adam.
        np.testing.assert_allclose(same, exact, rtol=5e-2)
        # Directions are linear in momenta: with equal rows their mean needs no averages of these.
        local, _ = self.train("local", "training.momenta.rule=local")
        np.testing.assert_allclose(local, exact, rtol=5e-2)

    def test_momenta_and_their_spread(self):
        for rule, apart in (("local", True), ("every", False)):  # 3 steps an epoch: averaged at its end
            self.train(rule, "training.communication=levels8", f"training.momenta.rule={rule}", "training.momenta.every=3")
            spread = self.epochs(rule)[-1]["momenta"]
            self.assertIn("conv1/weight", spread)
            for tensor, numbers in spread.items():
                self.assertEqual(numbers["variance"] > 1e-6 * numbers["mean_square"], apart, tensor)

    def wide(self, units=512):
        """A network of so many parameters that heads of messages do not show."""
        self.config(replace=[("units = 8\n", f"units = {units}\n")])

    def test_every_scheme_trains_and_its_bytes_are_counted_as_planned(self):
        self.wide()
        sent = {}
        for scheme in SCHEMES:
            settings = words(*LION, f"training.communication={scheme}", "run.ranks=2")
            plan = json.loads(self.mrmf("plan", "config.toml", "--json", *settings))
            (planned,) = plan["sums"]
            losses, _ = self.train(scheme, f"training.communication={scheme}")
            self.assertLess(losses[-1][0], losses[0][0])
            # Votes on zeros take two bits.
            sent[scheme] = self.epochs(scheme)[-1]["sent_bytes"]
            self.assertGreater(sent[scheme], 0.98 * planned["sent_bytes"])
            self.assertLess(sent[scheme], (2.1 if scheme == "vote" else 1.05) * planned["sent_bytes"])
        self.assertEqual(sorted(sent, key=sent.get)[-1], "fp32")
        self.assertLess(sent["vote"], sent["levels4"])
        self.assertIn("each of 2 ranks sends", self.mrmf("plan", "config.toml", *settings))

    def test_auto_measures_once_and_says_what_it_took(self):
        support.make_data(self.path("data.h5"), train=480)
        settings = ["training.communication=auto", "training.batch=4"]
        self.stopped("run", signal.SIGUSR1, *settings)
        self.train("run", *settings)
        log = self.read("run/log.txt")
        self.assertEqual(log.count("communication: "), 1, log)
        self.assertRegex(log, r"communication: fp32; sums of \d+ values are too short to be coded")
        self.train("one", *settings, ranks=1)
        self.assertIn("communication: one rank adds nothing", self.read("one/log.txt"))

    def stopped(self, run, how, *settings, ranks=2):
        """Starts a run, and ends it by a signal once an epoch is on record."""
        def attempt():
            process = self.launch("train", "config.toml", *words(f"run.folder={run}", *LION, *settings), ranks=ranks)
            support.wait_while(process, lambda: self.epochs_written(run) < 1)
            if how == signal.SIGKILL and process.poll() is None:  # of mpirun alone, the ranks would continue
                for pid in support.ranks_of(process).values():
                    os.kill(pid, how)
            else:
                process.send_signal(how)
            output = process.communicate(timeout=120)[0]
            return process.returncode, output
        return self.interrupted(run, attempt)[1]

    def test_a_run_that_was_stopped_or_killed_continues_bit_for_bit(self):
        support.make_data(self.path("data.h5"), train=240)
        within, killed = signal.SIGUSR1, signal.SIGKILL  # within an epoch; back to the last one's end
        for scheme, more, how in (("levels8", "training.momenta.rule=spaced", within),
                                  ("int8", "training.error_feedback=true", killed)):
            settings = [f"training.communication={scheme}", more, "training.batch=4", "training.epochs=6",
                        "run.checkpoint.epochs=1"]
            wanted = self.train("whole-" + scheme, *settings)
            self.stopped(scheme, how, *settings)
            self.assertEqual(self.train(scheme, *settings), wanted)

    def test_one_rank_and_several_continue_each_other(self):
        support.make_data(self.path("data.h5"), train=480)
        for scheme, more, first, then in (("levels8", "training.momenta.rule=local", 2, 1),
                                          ("int8", "training.error_feedback=true", 1, 2)):
            settings = [f"training.communication={scheme}", more, "data.shards=4"]
            self.stopped(scheme, signal.SIGUSR1, *settings, f"training.batch={16 // first}", ranks=first)
            self.train(scheme, *settings, f"training.batch={16 // then}", ranks=then)
            self.assertRegex(self.read(scheme + "/log.txt"), r"(the momentum of one rank was|the momenta of 2 ranks or shards were) "
                                                             fr"saved, and now there (is|are) {then}: each begins with their mean")

    def test_a_probe_begins_with_the_mean_of_the_momenta(self):
        self.config(replace=[('name = "baseline"', '''name = "mrmf"
top = "interpolated"
moments = "carry"
resolutions = [[2], [1]]
switch = "slope"
probe = 0.4
coarse = { rule = "constant", learning_rate = 1e-12 }
stop = { coarse = { epochs = 8 }, finetune = { epochs = 2 } }''')])
        settings = ["training.communication=levels8", *EMULATED[:2]]
        one = self.train("one", *settings, "training.batch=24", ranks=1)
        self.assertEqual(self.train("two", *settings, "training.batch=12", ranks=2), one)
        reasons = [s["reason"] for s in self.lines("one/stages.jsonl")]
        self.assertEqual(reasons[0], "slope")
        fixed = ["method.switch=epochs", "method.stop.coarse.epochs=4"]
        self.assertEqual(self.train("fixed", *settings, *fixed, "training.batch=24", ranks=1), one)

    def test_emulated_ranks_are_the_same_on_any_number_of_ranks(self):
        # Of levels, in test_fusions_and_teams_begin_with_one_momentum.
        for scheme, ranks, more in (("vote", 3, ["training.momenta.rule=spaced", "training.momenta.spacing=1"]),
                                    ("int8", 2, ["training.error_feedback=true"])):
            settings = [f"training.communication={scheme}", *EMULATED[:2], *more]
            one = self.train(scheme + "-1", *settings, "training.batch=24", ranks=1)
            self.assertEqual(self.train(scheme, *settings, f"training.batch={24 // ranks}", ranks=ranks), one)

    def test_a_run_of_emulated_ranks_continues_on_another_number(self):
        support.make_data(self.path("data.h5"), train=480)
        for scheme, first, then, more in (("vote", 2, 3, []), ("int8", 2, 1, ["training.error_feedback=true"])):
            settings = [f"training.communication={scheme}", *EMULATED[:2], *more]
            wanted = self.train("whole-" + scheme, *settings, "training.batch=24", ranks=1)
            self.stopped(scheme, signal.SIGUSR1, *settings, f"training.batch={24 // first}", ranks=first)
            self.assertEqual(self.train(scheme, *settings, f"training.batch={24 // then}", ranks=then), wanted)

    def test_unequal_rows_are_weighed_and_said(self):
        support.make_data(self.path("data.h5"), train=97)
        self.train("run", "training.communication=vote", "training.epochs=1")
        self.assertIn("some steps have unequal numbers of rows on the 2 ranks or shards", self.read("run/log.txt"))

    def test_fusions_and_teams_begin_with_one_momentum(self):
        self.config(replace=[support.MRMF_METHOD])
        emulated = ["training.communication=levels8", *EMULATED[:2]]
        for moments in ("reset", "carry"):  # what the ranks' own momenta came to must not depend on who had them
            settings = emulated + ["method.top=interpolated", f"method.moments={moments}"]
            one = self.train(moments + "-1", *settings, "training.batch=24", ranks=1)
            self.assertEqual(self.train(moments + "-2", *settings, "training.batch=12", ranks=2), one)
        self.assertNotEqual(self.left("reset-1"), one)
        # Teams of one rank and of two: each has momenta of its own ranks alone, and the last phase those of all three.
        self.train("teams", "training.communication=vote", "method.teams=concurrent", "method.team_shares=[1, 2]",
                   "training.batch=8", ranks=3)
        for epoch in self.epochs("teams"):
            self.assertEqual("momenta" in epoch, epoch["ranks"] > 1, epoch["role"])
        self.assertEqual({epoch["ranks"] for epoch in self.epochs("teams")}, {1, 2, 3})

    def test_full_levels_go_beyond_what_all_ranks_add_up_to(self):
        settings = ["run.deterministic=true", "data.shards=32", "training.batch=32", "training.communication=levels8"]
        wanted = self.train("sum", *settings, ranks=1)
        self.assertNotEqual(self.train("full", *settings, "training.full_levels=true", ranks=1), wanted)
        halves = [s for s in settings if "levels8" not in s] + ["training.communication=levels4"]
        self.refused("its counters hold 15; set training.full_levels = true", *LION, *halves)
        one = self.train("halves", *halves, "training.full_levels=true", ranks=1)
        two = [s for s in halves if "batch" not in s] + ["training.batch=16"]
        self.assertEqual(self.train("two", *two, "training.full_levels=true", ranks=2), one)
        self.refused("training.full_levels belongs to levels8, levels8-l0 and levels4", *LION, "training.communication=vote",
                     "training.full_levels=true")

    def test_codes_are_computation_and_not_waiting(self):
        # A rank alone waits for nobody, and its twelve shards make codes of 380,000 values each: a tenth of the time in
        # every epoch. Other processes may take its core while it communicates, but hardly in all of them.
        support.make_data(self.path("data.h5"), train=480)
        self.wide(4096)
        self.train("run", "training.communication=levels8", *EMULATED, ranks=1)
        self.assertLess(min(epoch["communication_seconds"] / epoch["compute_seconds"] for epoch in self.epochs("run")), 0.04)

    def test_what_is_planned_for_ranks_is_trained(self):
        self.tables_of_two_ranks()
        for settings in (["training.communication=vote"], ["training.communication=bf16"], ["training.momenta.rule=local"]):
            plan = ["plan", "config.toml", "--ranks", "2", "--tables", "tables.json", *words(*LION, *settings)]
            self.assertIn("go without run.grid", self.mrmf(*plan))
            (phase,) = json.loads(self.mrmf(*plan, "--json"))["ranks"]["phases"]
            self.assertEqual([choice["grid"] for choice in phase["grids"]], [[1]])
            self.write("chosen.toml", self.mrmf(*plan, "--toml"))
            self.refused("run.grid does not go with", *LION, *settings, "run.grid=[2]", ranks=2)
        self.mrmf("train", "chosen.toml", "--set", "training.epochs=1", ranks=2)

    def test_a_way_of_the_coarse_phases_alone(self):
        self.config(replace=[support.MRMF_METHOD])
        settings = ["method.coarse.communication=levels8", "training.batch=4"]
        wanted = self.train("run", *settings)
        plan = json.loads(self.mrmf("plan", "config.toml", "--json", *words(*LION, *settings, "run.ranks=2")))
        ways = {step["role"]: step.get("communication", "fp32") for step in plan["steps"] if step["step"] == "train"}
        self.assertEqual(ways, {"coarse": "levels8", "dense": "fp32", "finetune": "fp32"})
        planned = {(tuple(sums["resolution"]), sums["communication"]): sums["sent_bytes"] for sums in plan["sums"]}
        for epoch in self.epochs("run"):
            way = ways[epoch["role"]]
            self.assertEqual("momenta" in epoch, way == "levels8", epoch["role"])
            sent = planned[tuple(epoch["resolution"]), way]
            self.assertGreater(epoch["sent_bytes"], 0.95 * sent)
            self.assertLess(epoch["sent_bytes"], 1.1 * sent + 1500)
        self.assertIn("in levels8 at [4]", self.mrmf("plan", "config.toml", *words(*LION, *settings, "run.ranks=2")))
        self.assertNotEqual(self.train("plain", "training.batch=4"), wanted)
        self.refused('method.coarse.communication = "levels8" adds signs and levels', *settings)
        self.refused('method.dense.communication = "vote" adds signs', "method.dense.communication=vote")

    def test_a_run_that_stops_in_a_way_of_one_phase_continues_bit_for_bit(self):
        support.make_data(self.path("data.h5"), train=240)
        self.config(replace=[support.MRMF_METHOD])
        settings = ["method.coarse.communication=vote", "training.batch=4"]
        wanted = self.train("whole", *settings)
        self.stopped("run", signal.SIGUSR1, *settings)
        self.assertEqual(self.train("run", *settings), wanted)

    def test_momenta_of_chosen_tensors_are_averaged(self):
        settings = ["training.communication=levels8", "training.momenta.rule=every", "training.momenta.every=3"]
        chosen = settings + ['training.momenta.tensors=["dense*"]']
        self.train("run", *chosen)
        for tensor, numbers in self.epochs("run")[-1]["momenta"].items():
            self.assertEqual(numbers["variance"] > 1e-6 * numbers["mean_square"], not tensor.startswith("dense"), tensor)
        def momenta_bytes(settings):
            return json.loads(self.mrmf("plan", "config.toml", "--json", *words(*LION, *settings, "run.ranks=2")))["sums"][0][
                "momenta_bytes"]
        self.assertLess(momenta_bytes(chosen), momenta_bytes(settings))
        self.refused('training.momenta.tensors has "fc*", and no parameter has such a name', *LION, *settings,
                     'training.momenta.tensors=["dense*", "fc*"]')
        self.refused("training.momenta.tensors has an empty name", *LION, *settings, 'training.momenta.tensors=[""]')

    def refused(self, message, *settings, ranks=0, code=2):
        self.fails(code, "train", "config.toml", *words(*settings), message=message, ranks=ranks)

    def test_bad_input_is_one_line(self):
        support.make_data(self.path("data.h5"), train=256, validation=256)
        for scheme in ("levels8", "levels8-l0", "levels4", "vote"):
            self.refused(f'training.communication = "{scheme}" adds signs and levels, which only the optimizer "lion" can use',
                         f"training.communication={scheme}")
        self.refused('must be one of fp32, bf16, int8, levels8, levels8-l0, levels4, vote, auto',
                     "training.communication=fp8")
        self.refused("training.momenta.rule is about the momenta of the optimizer", "training.momenta.rule=local")
        self.refused("set training.momenta.rule to local, every or spaced", *LION, "training.communication=vote",
                     "training.momenta.rule=shared")
        for k in ("0", "-1"):
            self.refused("training.momenta.every is " + k, *LION, "training.momenta.every=" + k)
            self.refused("training.momenta.spacing is " + k, *LION, "training.momenta.spacing=" + k)
        self.refused("training.clip_norm needs the sum of all gradients", *LION, "training.communication=vote",
                     "training.clip_norm=1")
        self.refused("training.error_feedback belongs to sums of gradients in bf16 or int8", "training.error_feedback=true")
        self.refused("adds what 128 ranks or shards send, and its counters hold 127", *LION, "run.deterministic=true",
                     "training.communication=levels8", "data.shards=128", "training.batch=128")
        self.refused("adds what 16 ranks or shards send, and its counters hold 15", *LION, "run.deterministic=true",
                     "training.communication=levels4", "data.shards=16", "training.batch=16")

    def test_auto_takes_what_is_the_same_in_every_run(self):
        self.train("run", "training.communication=auto", "run.deterministic=true")
        self.assertNotIn("momenta", self.epochs("run")[-1])  # which are shared
        self.assertIn("communication: fp32, as always with grids, on GPUs, and with run.deterministic",
                      self.read("run/log.txt"))

    def test_bench_scaling_measures_one_way_that_the_ranks_can_add_in(self):
        bench = ["bench", "scaling", "config.toml", *words(*LION)]
        self.fails(2, *bench, *words("training.communication=auto"), message="bench scaling measures one way of adding", ranks=2)

    def test_a_checkpoint_of_another_scheme_is_refused(self):
        support.make_data(self.path("data.h5"), train=960)
        self.stopped("run", signal.SIGUSR1, "training.communication=levels8", "training.batch=4")
        self.refused("training.communication is \"levels8\", and here it is \"levels4\"", *LION, "run.folder=run",
                     "training.communication=levels4", "training.batch=4")

    def test_a_rank_that_hangs_in_a_coded_sum_ends_the_run(self):
        support.make_data(self.path("data.h5"), train=9600)
        for scheme, more in (("levels8", []), ("int8", ["training.error_feedback=true"])):
            run = "hangs-" + scheme
            with unittest.mock.patch.dict(os.environ, support.hangs_when_told()):
                process = self.launch("train", "config.toml", *words(
                    f"run.folder={run}", *LION, f"training.communication={scheme}", *more, "training.batch=4",
                    "training.epochs=100000", "training.batch_norm=local", "run.timeout=4"), ranks=3)
            self.addCleanup(process.kill)
            support.wait_while(process, lambda: self.epochs_written(run) < 1)
            os.kill(support.ranks_of(process)[1], support.HANG)
            output = process.communicate(timeout=150)[0]
            self.assertEqual(process.returncode, 4, output)
            # Nearly all of a step's messages are those of its sum.
            self.assertRegex(output, r"MPI_[A-Z][a-z_]+\) has not ended within 4 s; another rank hangs or has died")

    def test_a_rank_that_dies_ends_the_run(self):
        support.make_data(self.path("data.h5"), train=9600)
        process = self.launch("train", "config.toml", *words(*LION, "training.communication=vote", "training.batch=4"),
                              ranks=2)
        support.wait_while(process, lambda: self.epochs_written() < 1)
        os.kill(support.ranks_of(process)[1], signal.SIGKILL)
        output = process.communicate(timeout=120)[0]
        self.assertNotEqual(process.returncode, 0, output)


if __name__ == "__main__":
    support.main()
