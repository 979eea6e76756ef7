"""mrmf from Python: data in, trained networks out, everything through the program and its files.

Examples:
    >>> import mrmf
    >>> run = mrmf.train(samples, labels, epochs=8)
    >>> run.predict(new_samples)
    >>> run.export("model.onnx")
"""

from .commands import compare, data, init, load, plan, plot, train, tune
from .config import Config, keys
from .errors import ConfigError, DataError, FaultError, MrmfError, Stopped, UnknownKeyError
from .run import Run
from .writing import write

__all__ = ["Config", "ConfigError", "DataError", "FaultError", "MrmfError", "Run", "Stopped", "UnknownKeyError", "compare",
           "data", "init", "keys", "load", "plan", "plot", "train", "tune", "write"]


def __getattr__(name: str):
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version
        try:
            return version("mrmf")
        except PackageNotFoundError:
            return "0"
    if name in ("MRMFRegressor", "MRMFClassifier"):
        from . import sklearn
        return getattr(sklearn, name)
    raise AttributeError(f"module 'mrmf' has no attribute '{name}'")
