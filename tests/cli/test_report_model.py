"""What the report says of a run's model: scores that are evaluate's, names, pictures of masks, and what it does without data."""
import base64
import json
import os
import re
import struct
import zlib

import h5py
import numpy as np
import support

MASKS = """
[data]
files = ["masks.h5"]
train = { samples = "x", labels = "m" }
split = { by = "rows", validation = 0.25, test = 0.2 }
[training]
loss = ["cross_entropy", "dice"]
batch = 4
epochs = 2
[run]
folder = "run"
threads = 1
""" + support.layers("conv filters=4 kernel=3 padding=\"same\"", "relu", "conv filters=3 kernel=1")


def pixels(address):
    """Width, height and bytes of a PNG within a page; every checksum in it is right."""
    data = base64.b64decode(address.partition("base64,")[2])
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, {}
    while at < len(data):
        length, = struct.unpack(">I", data[at:at + 4])
        kind, body = data[at + 4:at + 8], data[at + 8:at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length:at + 12 + length])[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + length
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), "u1").reshape(height, 1 + 3 * width)
    return width, height, rows[:, 1:].reshape(height, width, 3)


class ReportModel(support.MrmfTest):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(0)
        self.masks = rng.integers(0, 3, (40, 12, 10)).astype("u1")
        with h5py.File(self.path("masks.h5"), "w") as file:
            file["x"] = (self.masks + rng.normal(0, 0.3, self.masks.shape)).astype("f4")[..., None]
            file["m"] = self.masks
            file["m"].attrs["class_names"] = ["ground", "<tree>", "house"]
        self.write("c.toml", MASKS)
        self.mrmf("train", "c.toml")

    def report(self, *words):
        self.mrmf("report", "run", "-o", "r.html", "--overwrite", *words)
        return self.read("r.html")

    def test_scores_names_and_pictures(self):
        for split in "validation", "test":
            text = self.report("--split", split)
            scores = json.JSONDecoder().raw_decode(self.mrmf("evaluate", "run", "--split", split, "--json"))[0]
            self.assertIn(f"Scores of its {scores['samples']} {split} samples", text)
            self.assertIn("mrmf evaluate run" + (" --split test" if split == "test" else "") + "</code>", text)
            for one in scores["classes"]:
                self.assertIn(f"<td class=\"number\">{one['dice']:.4f}</td>", text)
            self.assertIn(f"<td class=\"number\">{scores['dice']:.4f}</td>", text)
            for count in np.ravel(scores["confusion"]):
                self.assertIn(f">{count}</text>", text)
            self.assertIn("&lt;tree&gt;", text)
            self.assertNotIn("<tree>", text)
            self.assertIn("the best one", text)
        self.mrmf("predict", "run", "--split", "test", "-o", "p.h5")
        with h5py.File(self.path("p.h5")) as file:
            said, row = file["class"][0], file["row"][0]
        _, truth, predicted = (pixels(a) for a in re.findall(r'<img src="(data:[^"]*)"', text)[:3])
        for picture, classes in (truth, self.masks[row]), (predicted, said):
            self.assertEqual(picture[:2], (10, 12))
            for c in np.unique(classes):
                self.assertEqual(len(np.unique(picture[2][classes == c], axis=0)), 1)  # a colour for each class
            self.assertEqual(len(np.unique(picture[2].reshape(-1, 3), axis=0)), len(np.unique(classes)))

    def test_long_curves_and_long_names(self):
        """A page holds no more points of a curve than it can show, with its peaks; names are cut between letters."""
        rng = np.random.default_rng(0)
        labels = rng.normal(0, 1, (12, 9000, 1)).astype("f4")
        labels[:, 4321] = 50
        with h5py.File(self.path("long.h5"), "w") as file:
            file["x"], file["m"] = labels, labels
        self.write("long.toml", MASKS.replace("masks.h5", "long.h5").replace('["cross_entropy", "dice"]', '"mse"').replace(
            "epochs = 2", "epochs = 1").replace('"run"', '"long"').replace("filters = 3", "filters = 1"))
        self.mrmf("train", "long.toml")
        self.mrmf("report", "long", "-o", "long.html")
        text = self.read("long.html")
        self.assertLess(len(text), 300_000)
        self.assertIn("position", text)
        names = ["\u00e4" * 30, "b", "c"]
        self.mrmf("train", "c.toml", "--overwrite", "--set", f"data.names.classes={json.dumps(names, ensure_ascii=False)}")
        self.assertIn(">" + "\u00e4" * 8 + "\u2026</text>", self.report())

    def test_without_data_it_says_so(self):
        os.rename(self.path("masks.h5"), self.path("gone.h5"))
        text = self.report()
        self.assertIn("Its model was not run for this page", text)
        self.assertIn("How training went", text)
        self.assertNotIn("Its model was not run", self.report("--no-models"))


if __name__ == "__main__":
    support.main()
