"""The Python package beside xarray, zarr, dask, pandas, tqdm, matplotlib and scikit-learn."""
import os
import pickle
import re
import subprocess
import sys
import tempfile
import tracemalloc
import unittest
import warnings
from pathlib import Path

import dask.array
import h5py
import numpy as np
import pandas
import xarray
import zarr
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import estimator_checks_generator
from test_package import ROOT, InFolder, mrmf, recordings

from mrmf import writing  # of this repository, by test_package


class Sources(InFolder):
    def test_arrays_of_other_packages(self):
        x, y = recordings(100)
        stored = zarr.open(str(Path("a.zarr")), mode="w", shape=x.shape, chunks=(7, 16, 2), dtype=x.dtype)
        stored[:] = x
        kinds = {"zarr": stored, "dask": dask.array.from_array(x, chunks=(30, 16, 2)),
                 "xarray": xarray.DataArray(x, dims=("event", "time", "channel"), attrs={"units": "mV"})}
        for kind, samples in kinds.items():
            with self.subTest(kind):
                mrmf.write("out.h5", samples, y, overwrite=True)
                with h5py.File("out.h5", "r") as out:
                    np.testing.assert_array_equal(out["samples"][()], x)
                    if kind == "xarray":
                        self.assertEqual(dict(out["samples"].attrs), {"axes": "event time channel", "units": "mV"})

    def test_arrays_that_lie_in_files_are_read_in_pieces(self):
        x = np.zeros((1000, 1000), np.float32)
        whole = xarray.Dataset({"x": (("event", "time"), x)})
        whole.to_zarr("b.zarr", encoding={"x": {"chunks": (50, 1000)}}, consolidated=False)
        self.addCleanup(setattr, writing, "_PIECE", writing._PIECE)
        writing._PIECE = 1 << 16
        opened = xarray.open_zarr("b.zarr", chunks=None, consolidated=False)["x"]
        mrmf.write("warm.h5", opened[:2])  # what is imported at the first time is not counted
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        mrmf.write("b.h5", opened)
        self.assertLess(tracemalloc.get_traced_memory()[1], x.nbytes / 2)

    def test_tables_are_their_rows(self):
        x, y = recordings(20)
        mrmf.write("a.h5", pandas.DataFrame(x[:, :, 0]), pandas.DataFrame(y, columns=["mean", "other"]))
        with h5py.File("a.h5", "r") as file:
            np.testing.assert_array_equal(file["samples"][()], x[:, :, 0])
            self.assertEqual(list(file["labels"].attrs["names"]), ["mean", "other"])

    def test_tables_pictures_and_bars(self):
        x, y = recordings()
        run = mrmf.train(x, y, epochs=2, folder="a", progress=True)
        self.assertIsInstance(run.history, pandas.DataFrame)
        self.assertEqual(len(run.history), len(run.epochs))
        run.plot("a.png")
        self.assertEqual(Path("a.png").read_bytes()[1:4], b"PNG")
        for picture in (run.plot(), mrmf.plot([run, "a"], "b.png")):
            self.assertEqual(picture._repr_png_()[1:4], b"PNG")  # what a notebook shows


class Notebook(InFolder):
    """docs/tutorial: the script runs, here on fewer recordings for fewer epochs, and the notebook is made of it."""

    def test_it_is_made_of_the_script(self):
        subprocess.run([sys.executable, ROOT / "jobs/packaging/python/make_notebook.py", "--check"], check=True)

    def test_it_runs(self):
        text = (ROOT / "docs/tutorial.py").read_text(encoding="utf-8")
        for count, fewer in (("2000", "500"), ("1800", "450"), ("epochs = 8", "epochs = 4")):
            self.assertIn(count, text)
            text = text.replace(count, fewer)
        Path("tutorial.py").write_text(text, encoding="utf-8")
        done = subprocess.run([sys.executable, "tutorial.py"], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(ROOT / "jobs/packaging/python")})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("no xarray here", done.stdout)
        self.assertNotIn("no zarr here", done.stdout)
        errors = re.search(r"error of frequency and damping: \[ *(\S+)", done.stdout)
        self.assertLess(float(errors[1]), 0.5)  # of frequencies of 3 to 9
        self.assertGreater(Path("model.onnx").stat().st_size, 1000)


class ScikitLearn(InFolder):
    def test_its_own_checks(self):
        for kind in (mrmf.MRMFRegressor, mrmf.MRMFClassifier):
            for estimator, check in estimator_checks_generator(kind(epochs=8)):
                with self.subTest(f"{kind.__name__}: {check.func.__name__}"), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    check(estimator)

    def test_cross_validation_search_and_pickles(self):
        x, y = recordings()
        self.assertEqual(len(cross_val_score(mrmf.MRMFRegressor(epochs=2), x, y, cv=2)), 2)
        words = np.where(y[:, 0] > 0, "up", "down")
        search = GridSearchCV(mrmf.MRMFClassifier(epochs=2), {"learning_rate": [1e-3, 1e-2]}, cv=2).fit(x, words)
        self.assertEqual(set(search.predict(x)) | {"up", "down"}, {"up", "down"})
        again = pickle.loads(pickle.dumps(search.best_estimator_))
        np.testing.assert_array_equal(again.predict_proba(x), search.predict_proba(x))
        self.assertEqual(list(Path(tempfile.gettempdir()).iterdir()), [])


if __name__ == "__main__":
    unittest.main()
