#!/usr/bin/env python3
"""The CPU's kernels by their times: timed once, kept for this user, the same for all ranks and for a run that continues."""
import os
import unittest
from unittest import mock

from support import MrmfTest, main, make_data


class KernelChoice(MrmfTest):
    def setUp(self):
        super().setUp()
        make_data(self.path("data.h5"))
        self.config()
        variables = {"MRMF_CPU_KERNELS": "timed", "XDG_CACHE_HOME": self.path("cache")}
        patch = mock.patch.dict(os.environ, variables)
        patch.start()
        self.addCleanup(patch.stop)
        self.kept = self.path("cache/mrmf/kernels.txt")

    def train(self, run, *words, **options):
        return self.mrmf("train", "config.toml", "--set", f"run.folder={run}", *words, **options)

    def kernel_lines(self, output):
        return [line for line in output.splitlines() if "kernels: " in line]

    def test_a_second_run_has_the_kernels_and_the_bits_of_the_first(self):
        self.config(replace=[("filters = 6", "filters = 96")])  # enough work to be timed
        first = self.train("first")
        self.assertEqual(len(self.kernel_lines(first)), 1, first)
        self.assertRegex(first, r"kernels: [0-9]+ layers? timed in [0-9.]+ s.*kept in .*/cache/mrmf/kernels\.txt")
        self.assertTrue(os.path.exists(self.kept))
        self.train("second")
        self.same_models("first", "second")

    def test_two_ranks_have_the_same_choice(self):
        output = self.train("ranks", ranks=2)  # a model that differs between ranks would end the run
        self.assertEqual(len(self.kernel_lines(output)), 1, output)

    def test_a_run_that_continues_keeps_its_kernels(self):
        self.train("whole", "--set", "training.epochs=4")
        self.train("parts")
        with open(self.kept, "w") as file:
            file.write("mrmf kernels 1 0000000000000000\nnothing\n")
        output = self.mrmf("train", "--continue", "parts", "--set", "training.epochs=4")
        self.assertIn("kernels: those that the run began with", output)
        self.same_models("whole", "parts")

    def test_a_run_that_continues_elsewhere_says_what_it_cannot_keep(self):
        self.train("run", "--set", "run.threads=2")
        output = self.mrmf("train", "--continue", "run", "--set", "training.epochs=5", "--set", "run.threads=1")
        self.assertEqual(len(self.kernel_lines(output)), 1, output)
        self.assertRegex(output, r"kernels: .*; only 0 of [0-9]+ layers as the run began: threads, ")
        output = self.mrmf("train", "--continue", "run", "--set", "training.epochs=6", "--set", "run.threads=1")
        self.assertIn("kernels: those that the run began with\n", output)
        with mock.patch.dict(os.environ, {"MRMF_CPU_KERNELS": "fixed"}):
            output = self.mrmf("train", "--continue", "run", "--set", "training.epochs=7", "--set", "run.threads=1")
        self.assertIn("kernels: the default ones, although the run began with those that trials found", output)

    def test_deterministic_runs_have_fixed_kernels(self):
        output = self.train("fixed", "--set", "run.deterministic=true")
        self.assertEqual(self.kernel_lines(output), [])
        self.assertFalse(os.path.exists(self.kept))

    def test_a_damaged_file_and_one_that_cannot_be_written_are_told_in_one_line(self):
        os.makedirs(os.path.dirname(self.kept))
        with open(self.kept, "w") as file:
            file.write("mrmf kernels 1 0000000000000000\nnothing\n")
        output = self.train("damaged")
        self.assertEqual(len(self.kernel_lines(output)), 1, output)
        self.assertIn("kernels.txt is damaged", output)
        self.assertIn("kept in", output)
        self.write("file", "")
        with mock.patch.dict(os.environ, {"XDG_CACHE_HOME": self.path("file")}):
            output = self.train("unwritable")
        self.assertEqual(len(self.kernel_lines(output)), 1, output)
        self.assertIn("not kept: ", output)

    def test_bench_layers_says_which_kernels_were_taken(self):
        output = self.mrmf("bench", "layers", "--preset", "neuron_inverter", "--sample", "200x3", "--batch", "4",
                           "--steps", "2")
        self.assertRegex(output, r"conv\+max_pool\+relu +3 to 30 +1x1x4 on 1x1x200 +\w")
        self.assertRegex(output, r"dense +128 to 19 +\w+ +too little work to time")

    def test_another_wish_is_refused(self):
        with mock.patch.dict(os.environ, {"MRMF_CPU_KERNELS": "fast"}):
            output = self.train("refused", code=2)
        self.assertIn("MRMF_CPU_KERNELS=fast: there are fixed and timed", output)


if __name__ == "__main__":
    main()
