"""What ONNX Runtime computes from `mrmf export`'s ONNX files beside `mrmf predict`. Runs in .venv-onnx (run.sh)."""
import json
import os
import subprocess
import tempfile
import unittest

import h5py
import numpy as np
import onnx
import onnxruntime
import safetensors.numpy

import networks

TOLERANCE = 1e-5


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


class Comparison(unittest.TestCase):
    def compare(self, path, samples, want, deviation=networks.deviation):
        """Of all rows at once, of one row, and of some: the batch is free."""
        onnx.checker.check_model(path, full_check=True)
        network = session(path)
        self.assertEqual([one.name for one in network.get_inputs()], ["samples"])
        self.assertEqual(network.get_inputs()[0].shape, ["batch", *samples.shape[1:]])
        names = [one.name for one in network.get_outputs()]
        for first, last in ((0, len(samples)), (2, 3), (1, 6)):
            for name, got in zip(names, network.run(None, {"samples": samples[first:last]})):
                self.assertEqual(got.dtype, np.float32)
                self.assertLessEqual(deviation(got, want[name][first:last]), TOLERANCE, name)
        return names


class Networks(Comparison):
    def test_every_network(self):
        kinds = set()
        for name in networks.NETWORKS:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                samples, want = networks.make_model(name, folder)
                if name in networks.NOT_IN_ONNX:
                    with self.assertRaisesRegex(RuntimeError, "ONNX has no layers of the kind"):
                        networks.mrmf("export", f"{folder}/model.h5", "-o", f"{folder}/m.onnx")
                else:
                    networks.mrmf("export", f"{folder}/model.h5", "-o", f"{folder}/m.onnx")
                    names = self.compare(f"{folder}/m.onnx", samples, want, networks.deviation_of(name))
                    self.assertEqual(set(names), set(want) - {"class"})
                networks.mrmf("export", f"{folder}/model.h5", "-o", f"{folder}/m.safetensors")
                metadata, _ = networks.safetensors_file.read(f"{folder}/m.safetensors")
                kinds |= {layer["type"] for layer in json.loads(metadata["network"])["layers"]}
                if name not in networks.NOT_IN_ONNX:
                    self.facts(folder, metadata)
        self.assertEqual(kinds, networks.all_kinds())

    def facts(self, folder, metadata):
        model = onnx.load(f"{folder}/m.onnx")
        self.assertEqual([(one.domain, one.version) for one in model.opset_import], [("", 17)])
        facts = {one.key: one.value for one in model.metadata_props}
        self.assertEqual(facts, {key: text for key, text in metadata.items() if key != "network"})
        self.assertRegex(facts["program"], r"^mrmf \d+\.\d+")
        self.assertEqual(facts["run"], f"{folder}/model.h5")
        self.assertIn(facts["program"], model.doc_string)
        self.assertIn("resolution " + facts["resolution"], model.doc_string)
        loaded = safetensors.numpy.load_file(f"{folder}/m.safetensors")  # by the format's own reader
        _, ours = networks.safetensors_file.read(f"{folder}/m.safetensors")
        self.assertEqual(set(loaded), set(ours))
        for name, values in ours.items():
            np.testing.assert_array_equal(loaded[name], values)


class Maps(Comparison):
    def test_normalisation(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([os.environ["EXPORT_MAPS"], folder], check=True, timeout=60)
            cases = sorted(name[:-3] for name in os.listdir(folder) if name.endswith(".h5"))
            self.assertEqual(len(cases), 8)
            for case in cases:
                with self.subTest(case):
                    with h5py.File(f"{folder}/{case}.h5") as file:
                        samples, want = file["x"][()], file["prediction"][()]
                    self.compare(f"{folder}/{case}.onnx", samples, {"prediction": want}, networks.deviation_by_output)


if __name__ == "__main__":
    unittest.main()
