"""Values that stand for classes are told apart as exactly as the files hold them."""
import json

import h5py
import numpy as np

import support
from people_files import PeopleTest, config

TEXT = config("""files = ["f.h5"]
train = { samples = "x", labels = "y" }
split = { by = "rows", validation = 0.25 }
""", 'epochs = 2\nloss = "cross_entropy"\nclass_values = %s', 2)


class LargeClassValues(PeopleTest):
    def counts(self, values, labels, **attributes):
        """How many of each class `data` finds in both parts."""
        with h5py.File(self.path("f.h5"), "w") as file:
            file["x"] = np.random.default_rng(0).normal(0, 1, (48, 32, 1)).astype("f4")
            file["y"] = labels
            file["y"].attrs.update(attributes)
        self.write("c.toml", TEXT.replace("%s", values))
        found = json.loads(self.mrmf("data", "c.toml", "--json"))
        return [sum(found[part]["class_counts"][c] for part in ("training", "validation")) for c in (0, 1)]

    def test_neighbours_beyond_float32(self):
        odd = np.arange(48) % 3 == 0
        for dtype in ("i4", "u4", "i8", "f8", ">i4"):
            labels = (20230103 + odd).astype(dtype)
            self.assertEqual(self.counts("[20230103, 20230104]", labels), [32, 16])
        self.assertEqual(self.counts("[20230103, 20230104]", (20230103 + odd).astype("i4"), _FillValue=np.int32(-1)), [32, 16])
        most = 2**53 - 2
        self.assertEqual(self.counts(f"[{most}, {most + 1}]", most + odd.astype("i8")), [32, 16])
        self.mrmf("train", "c.toml")

    def test_what_no_class_names_is_refused(self):
        labels = np.full(48, 20230103, "i4")
        self.counts("[20230103, 20230104]", labels)
        labels[5] = 20230105
        with h5py.File(self.path("f.h5"), "a") as file:
            file["y"][...] = labels
        self.fails(3, "data", "c.toml", message="row 5 holds 20230105")

    def test_values_that_are_rounded_as_the_labels_are(self):
        odd = np.arange(48) % 3 == 0
        for dtype in ("f2", "f4", "f8"):
            self.assertEqual(self.counts("[0.1, 0.2]", np.where(odd, 0.2, 0.1).astype(dtype)), [32, 16])

    def test_values_that_labels_cannot_tell_apart(self):
        odd = np.arange(48) % 3 == 0
        self.counts("[20230103, 20230104]", (20230103 + odd).astype("i4"))
        with h5py.File(self.path("f.h5"), "a") as file:
            del file["y"]
            file["y"] = (20230103 + odd).astype("f4")
        for ranks in (0, 2):
            self.fails(3, "train", "c.toml", "--overwrite", ranks=ranks,
                       message="holds float32 elements, in which 20230103 and 20230104 of training.class_values are the same")
        self.write("c.toml", self.read("c.toml").replace("20230104", "9007199254740992"))
        self.fails(2, "data", "c.toml", message="takes numbers below 2^53")


if __name__ == "__main__":
    support.main()
