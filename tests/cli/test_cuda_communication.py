"""training.communication with device = "cuda": codes are made on the device and travel by NCCL. On the emulated device:
test code that stands in for a GPU, so nothing here says anything about one. CMake names the module in MRMF_CUDA_MODULE."""
import glob
import json
import signal
import sys
import time

import h5py
import numpy as np

import support
from test_cuda import EXACT, FUSABLE, MODULE, MRMF_METHOD, SGD, CudaTest

SHARED = ["--set", "run.ranks_share_gpu=true", "--set", "training.batch=8"]
LION = ["--set", "training.optimizer.name=lion", "--set", "training.optimizer.learning_rate=1e-3"]


def ways(communication, *more):
    return [word for setting in (f"training.communication={communication}", *more) for word in ("--set", setting)]


class CudaCommunication(CudaTest):
    def both(self, *words, ranks=2, rtol):
        cpu = self.train("cpu", *words, "--set", "training.batch=8", device="cpu", ranks=ranks)
        gpu = self.train("gpu", *words, *SHARED, ranks=ranks)
        np.testing.assert_allclose(gpu, cpu, rtol=rtol)
        return gpu

    def arrays(self, run):
        (last,) = glob.glob(self.path(f"{run}/checkpoints/phase-*.h5"))
        arrays = {}
        with h5py.File(last) as file:
            file.visititems(lambda name, item: arrays.update({name: item[()]})
                            if isinstance(item, h5py.Dataset) and item.dtype == "float32" else None)
        self.assertGreater(len(arrays), 5)
        return arrays

    def test_rounded_sums_are_those_of_the_cpu(self):
        exact = self.train("exact", *SGD, *SHARED, ranks=2)
        for way, more in (("bf16", []), ("int8", []), ("int8", ["training.error_feedback=true"])):
            losses = self.both(*SGD, *ways(way, *more), rtol=2e-3)
            np.testing.assert_allclose(losses, exact, rtol=5e-2)
            self.assertFalse(np.array_equal(losses, exact))

    def test_levels_are_those_of_the_cpu(self):
        # A sum that is nearly zero may have another sign, or none.
        for way, ranks in (("levels8", 2), ("levels8-l0", 2), ("levels4", 3)):
            self.both(*LION, *ways(way), ranks=ranks, rtol=2e-2)
        self.both(*LION, *ways("levels8", "training.full_levels=true"), rtol=2e-2)

    def test_a_rank_without_rows_has_no_say(self):
        support.make_data(self.path("data.h5"), train=49, validation=20)  # the last step has one row
        for way, optimizer, rtol in (("int8", SGD, 2e-2), ("vote", LION, 5e-2)):
            self.both(*optimizer, *ways(way), rtol=rtol)
        self.assertIn("unequal numbers of rows", self.read("gpu/log.txt"))

    def test_votes_learn(self):
        # Ties are broken by other bits than on the CPU.
        self.both(*LION, *ways("vote"), ranks=3, rtol=5e-2)

    def test_batches_in_parts_and_ways_of_the_coarse_phase(self):
        self.both(*LION, *ways("levels8", "training.accumulate=2"), rtol=2e-2)
        self.config(replace=[("epochs = 3", "epochs = 2"), FUSABLE, MRMF_METHOD])
        self.both(*LION, *ways("int8", "method.coarse.communication=levels8"), rtol=2e-2)

    def test_momenta_are_averaged(self):
        for rule in (["every", "training.momenta.every=2"], ["spaced", "training.momenta.spacing=1"]):
            words = ways("levels8", f"training.momenta.rule={rule[0]}", rule[1])
            self.both(*LION, *words, rtol=2e-2)
        self.assertIn("momenta", self.lines("gpu/epochs.jsonl")[-1])

    def test_recorded_steps_change_no_bit(self):
        for way in ("int8", "vote"):
            words = [*LION, *ways(way), *SHARED]
            on = self.train("on", *words, ranks=2)
            arrays = self.arrays("on")
            off = self.train("off", *words, "--set", "run.graphs=false", ranks=2)
            np.testing.assert_array_equal(on, off)
            for name, values in self.arrays("off").items():
                np.testing.assert_array_equal(arrays[name], values, err_msg=name)

    def test_a_stopped_run_continues_with_every_ranks_momentum(self):
        support.make_data(self.path("data.h5"), train=240, validation=20)
        words = [*LION, *ways("vote"), *SHARED, "--set", "training.epochs=6"]
        whole = self.train("whole", *words, ranks=2)
        train = ["train", "config.toml", "--set", "run.folder=run", "--set", "run.device=cuda", *EXACT, *words]

        def attempt():
            process = self.launch(*train, ranks=2)
            while self.epochs_written() < 1 and process.poll() is None:
                time.sleep(0.01)
            process.send_signal(signal.SIGUSR1)
            output = process.communicate(timeout=300)[0]
            return process.returncode, output

        self.interrupted("run", attempt)
        self.mrmf(*train, ranks=2)
        np.testing.assert_array_equal(self.losses("run"), whole)

    def test_two_devices_compute_as_one_that_is_shared(self):
        words = [*LION, *ways("vote")]
        shared = self.train("shared", *words, *SHARED, ranks=2)
        self.environment(MRMF_EMULATED_GPUS="2")
        np.testing.assert_array_equal(self.train("two", *words, "--set", "training.batch=8", ranks=2), shared)

    def test_bytes_are_counted_in_every_step(self):
        for way in ("bf16", "int8", "levels8", "levels4"):
            self.train("run", *LION, *ways(way), *SHARED, "--set", "training.epochs=1", ranks=2)
            plan = json.loads(self.mrmf("plan", "config.toml", "--json", *LION, *ways(way), "--set", "run.ranks=2"))
            for epoch in self.lines("run/epochs.jsonl"):
                self.assertGreater(epoch["sent_bytes"], 0.9 * plan["sums"][0]["sent_bytes"])
                # Pieces are whole units of 256 values.
                self.assertLess(epoch["sent_bytes"], 1.1 * plan["sums"][0]["sent_bytes"] + 4096)

    def test_momenta_in_float32_are_for_the_cpu(self):
        self.refused(2, "training.optimizer.name=lion", "training.momenta.rule=local", "run.ranks_share_gpu=true",
                     "training.batch=8", message="with sums in float32 is for the CPU", ranks=2)


if __name__ == "__main__":
    if not MODULE:
        print("MRMF_CUDA_MODULE does not name the emulated CUDA module")
        sys.exit(77)
    support.main()
