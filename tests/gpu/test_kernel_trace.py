"""The table of a replayed step's kernels, made of records that stand in for CUPTI's (kernel_trace_trial.cpp): no GPU, and
nothing here says that CUPTI gives such records. CMake names the program and the library."""
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import results  # noqa: E402


class Trace(unittest.TestCase):
    def test_each_node_of_the_graph_has_its_line(self):
        with tempfile.TemporaryDirectory(prefix="mrmf-test-") as folder:
            path = pathlib.Path(folder) / "table.tsv"
            subprocess.run([os.environ["KERNEL_TRACE_TRIAL"]], check=True, timeout=60,
                           env={**os.environ, "MRMF_KERNEL_TABLE": str(path)})
            rows = results.kernel_rows(path)
            line = results.kernels_line(path)
        kernel = {"count": 2, "registers": 40, "block": 128, "grid": 60, "shared": 128}
        nothing = {"count": 2, "registers": 0, "block": 0, "grid": 0, "shared": 0}
        # In the order of their start, each by itself; the host's pause between the steps is no gap of the device.
        self.assertEqual(rows, [{**nothing, "us": 0.5, "gap_us": 0, "name": "[memcpy]"},
                                {**kernel, "us": 2, "gap_us": 0.5, "name": "sum"},
                                {**kernel, "us": 6, "gap_us": 0.25, "name": "sum"},
                                {**nothing, "us": 0.75, "gap_us": 0, "name": "[memset]"}])
        self.assertEqual(line, (0, "4 nodes a step, 0.009 ms in them and 0.001 ms between them"))

    def test_a_program_without_the_variable_writes_nothing(self):
        with tempfile.TemporaryDirectory(prefix="mrmf-test-") as folder:
            variables = {name: value for name, value in os.environ.items() if name != "MRMF_KERNEL_TABLE"}
            subprocess.run([os.environ["KERNEL_TRACE_TRIAL"]], check=True, timeout=60, cwd=folder, env=variables)
            self.assertEqual(os.listdir(folder), [])

    def test_the_library_has_what_the_driver_calls(self):
        self.assertTrue(ctypes.CDLL(os.environ["KERNEL_TRACE"]).InitializeInjection)


if __name__ == "__main__":
    unittest.main()
