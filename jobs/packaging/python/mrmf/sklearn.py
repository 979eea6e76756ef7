"""scikit-learn's estimator interface, so that its cross-validation, grid search and pipelines work."""

from __future__ import annotations

from typing import Any, Dict, Optional

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from . import program
from .commands import train
from .temporary import work_folder
from .writing import write


def _validate(estimator: BaseEstimator, *arrays: Any, **more: Any) -> Any:
    """scikit-learn's checks: of X and y in fit, which sets n_features_in_, or of X alone in predict."""
    more = {"dtype": [np.float32, np.float64], "allow_nd": True, "reset": len(arrays) > 1, **more}
    try:  # scikit-learn 1.6 and later
        from sklearn.utils.validation import validate_data
        return validate_data(estimator, *arrays, **more)
    except ImportError:
        return estimator._validate_data(*arrays, **more)


class _Estimator(BaseEstimator):
    """What both have in common. ``model_`` is the trained model, as the bytes of its file, so that it can be pickled."""

    def __init__(self, epochs: int = 20, batch: Optional[int] = None, learning_rate: Optional[float] = None,
                 method: str = "auto", validation: float = 0.2, axes: Optional[str] = None,
                 random_state: Optional[int] = None, settings: Optional[Dict[str, Any]] = None):
        self.epochs = epochs
        self.batch = batch
        self.learning_rate = learning_rate
        self.method = method
        self.validation = validation
        self.axes = axes
        self.random_state = random_state
        self.settings = settings

    def _keys(self) -> Dict[str, Any]:
        keys: Dict[str, Any] = {"training.epochs": self.epochs, "method.name": self.method,
                                "data.split.validation": self.validation, "training.batch": self.batch,
                                "training.optimizer.learning_rate": self.learning_rate}
        if isinstance(self.random_state, (int, np.integer)):
            keys["training.seed"] = keys["data.split.seed"] = int(self.random_state) + 1  # seeds count from 1
        elif self.random_state is not None:  # a numpy RandomState
            keys["training.seed"] = keys["data.split.seed"] = int(self.random_state.randint(1, 2**31 - 1))
        keys = {key: value for key, value in keys.items() if value is not None}
        return {**keys, **(self.settings or {})}

    def _train(self, X: np.ndarray, y: np.ndarray) -> None:
        if X.shape[0] < 2:
            raise ValueError(f"{X.shape[0]} sample: some of the samples validate, so at least 2 are needed")
        with work_folder() as work:
            run = train(X, y, folder=work / "run", axes=self.axes, set=self._keys(), progress=False)
            self.history_ = run.epochs
            self.n_iter_ = len(self.history_)
            self.model_ = run.model_file.read_bytes()

    def _predict(self, X: Any, what: str) -> np.ndarray:
        check_is_fitted(self)
        X = _validate(self, X)
        import h5py
        with work_folder() as work:
            model, path, output = (work / name for name in ("model.h5", "samples.h5", "out.h5"))
            model.write_bytes(self.model_)
            write(path, X)
            program.run(["predict", model, "--files", path, "--samples", "samples", "-o", output])
            with h5py.File(output, "r") as file:
                return file[what][()]


class MRMFRegressor(RegressorMixin, _Estimator):
    """Numbers for samples. ``X`` is (samples, features) or (samples, positions..., channels); ``y`` one or more columns.

    Args:
        epochs: what one would give training at full resolution.
        batch, learning_rate: the program's own choice unless given.
        method: "auto" (the program chooses the schedule), "baseline", "mrmf", ...
        validation: the part of the samples that validates.
        axes: names of the axes of X where channels are not last, such as "n c y x".
        random_state: a seed, or a numpy RandomState.
        settings: further keys of the configuration, such as {"training.loss": "mae"}.
    """

    def fit(self, X: Any, y: Any) -> "MRMFRegressor":
        X, y = _validate(self, X, y, multi_output=True, y_numeric=True)
        self._one_column = y.ndim == 1
        self._train(X, np.asarray(y, dtype=np.float64))
        return self

    def predict(self, X: Any) -> np.ndarray:
        values = self._predict(X, "prediction").astype(np.float64)
        return values.reshape(len(values)) if self._one_column else values

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class MRMFClassifier(ClassifierMixin, _Estimator):
    """Classes for samples; ``classes_`` are the labels that ``y`` had, of any type. Arguments as of MRMFRegressor."""

    def fit(self, X: Any, y: Any) -> "MRMFClassifier":
        X, y = _validate(self, X, y)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("y has 1 class; a classifier needs at least 2 classes")
        self._train(X, numbers.astype(np.int64))
        return self

    def _keys(self) -> Dict[str, Any]:
        return {"training.loss": "cross_entropy", "training.classes": len(self.classes_), **super()._keys()}

    def predict_proba(self, X: Any) -> np.ndarray:
        return self._predict(X, "probability")

    def predict(self, X: Any) -> np.ndarray:
        probabilities = self._predict(X, "probability")
        return self.classes_[np.argmax(probabilities, axis=1)]
