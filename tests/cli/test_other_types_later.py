"""A run goes on with the same numbers in another type, and names the types where they are other numbers."""
import shutil

import h5py
import numpy as np

import support


class OtherTypes(support.MrmfTest):
    def make(self, x, y=None):
        with h5py.File(self.path("d.h5"), "w") as file:
            file["x"], file["y"] = x, np.random.default_rng(1).normal(0, 1, len(x)) if y is None else y

    def begin(self):
        self.write("c.toml", support.rows_config("flatten", "dense units=1", files=("d.h5",)))
        shutil.rmtree(self.path("run"), ignore_errors=True)
        self.mrmf("train", "c.toml")

    def more(self, epochs, **options):
        return self.mrmf("train", "--continue", "run", "--set", f"training.epochs={epochs}", **options)

    def test_the_same_numbers(self):
        x = np.random.default_rng(0).normal(0, 1, (80, 16, 2)).astype("f2")
        whole = np.random.default_rng(0).integers(-100, 100, (80, 16, 2))
        for first, others in ((x, ("f4", "f8", ">f4", ">f8")), (whole.astype("i2"), ("i4", "i8", "f4", "f8", ">i2"))):
            self.make(first)
            self.begin()
            for epochs, kind in enumerate(others, 2):
                self.make(first.astype(kind))
                output = self.more(epochs)
                self.assertIn("as far as they were compared, the numbers are the same", output)

    def test_large_arrays_are_looked_at_in_the_same_places(self):
        x = np.random.default_rng(0).normal(0, 1, (1200, 4096, 2)).astype("f4")  # more than is read whole
        self.make(x)
        self.begin()
        self.make(x.astype("f8"))
        self.assertIn("the numbers are the same", self.more(2))

    def test_other_numbers_in_another_type(self):
        x = np.random.default_rng(0).normal(0, 1, (80, 16, 2))
        self.make(x)
        self.begin()
        self.make(x.astype("f4"))
        output = self.more(2, code=3)
        self.assertIn("data set 'x' of d.h5 holds other numbers (float32 now, float64 then; written ", output)
        self.make(x)
        self.more(2)

    def test_integers_beyond_doubles(self):
        y = np.arange(80, dtype="i8") + 2**60
        x = np.random.default_rng(0).normal(0, 1, (80, 16, 2))
        self.make(x, y)
        self.begin()
        self.make(x, y.astype("u8"))
        self.more(2)
        y[7] += 1
        self.make(x, y)
        self.assertIn("data set 'y' of d.h5 holds other numbers", self.more(3, code=3))


if __name__ == "__main__":
    support.main()
