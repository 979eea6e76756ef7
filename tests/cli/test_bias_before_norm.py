"""A convolution in front of a batch norm: what its bias means in a model file, which others read by PyTorch's rule."""
import unittest

import h5py
import numpy as np
import support

LAYERS = support.layers("conv filters=5 kernel=3", "batch_norm momentum=0.3", "relu", "conv filters=4 kernel=2 stride=2",
                        "batch_norm", "flatten", "dense units=2")


def by_hand(model, x):
    """The network's output for x (rows, positions, channels), every convolution with its bias."""
    get = {name: model[f"parameters/{name}"] for name in model["parameters"]}

    def conv(x, name, stride):
        w, b = get[name]["weight"][()].astype(float), get[name]["bias"][()].astype(float)
        places = range(0, x.shape[1] - w.shape[1] + 1, stride)
        return np.stack([np.einsum("nkc,okc->no", x[:, p:p + w.shape[1]], w) for p in places], axis=1) + b

    def norm(x, name):
        mean, variance = (model[f"state/{name}/running_{what}"][()].astype(float) for what in ("mean", "variance"))
        return get[name]["gamma"][()] * (x - mean) / np.sqrt(variance + 1e-5) + get[name]["beta"][()]

    x = np.maximum(norm(conv(x, "conv1", 1), "batch_norm1"), 0)
    x = norm(conv(x, "conv2", 2), "batch_norm2").reshape(len(x), -1)
    return x @ get["dense1"]["weight"][()].T.astype(float) + get["dense1"]["bias"][()]


class BiasBeforeNorm(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"))
        self.write("config.toml", support.CONFIG.replace(support.LAYERS, "\n" + LAYERS))

    def trained(self, folder, *more, ranks=0):
        """Model file and predictions of a run."""
        self.mrmf("train", "config.toml", "--set", f"run.folder={folder}", "--set", "run.device=cpu", *more,
                  ranks=ranks)
        self.mrmf("predict", f"{folder}/checkpoints/final.h5", "--output", f"{folder}.h5")
        return self.path(f"{folder}/checkpoints/final.h5"), self.path(f"{folder}.h5")

    def check(self, files):
        with h5py.File(files[0]) as model, h5py.File(files[1]) as predicted, h5py.File(self.path("data.h5")) as data:
            wanted = by_hand(model, data["val_frames"][()].astype(float))
            got = predicted["prediction"][()]
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
            return model["parameters/conv1/bias"][()]

    def test_a_file_means_what_its_parts_say(self):
        biases = self.check(self.trained("one"))
        self.assertGreater(np.abs(biases).max(), 0.01)  # nothing else would show a bias that is added twice or never
        # No gradient moves them: they are what they were at the start, wherever training goes.
        longer = self.check(self.trained("longer", "--set", "training.epochs=5"))
        np.testing.assert_array_equal(longer, biases)
        self.check(self.trained("two", ranks=2))
        np.testing.assert_array_equal(self.check(self.trained("grid", "--set", "run.grid=[2]", ranks=2)), biases)

    def test_weight_decay_still_shrinks_them(self):
        biases = self.check(self.trained("still"))
        decayed = self.check(self.trained("decayed", "--set", "training.optimizer.name=adamw", "--set",
                                          "training.optimizer.weight_decay=0.1"))
        steps = 3 * 96 // 16
        np.testing.assert_allclose(decayed, biases * (1 - 3e-3 * 0.1)**steps, rtol=1e-5)


if __name__ == "__main__":
    support.main()
