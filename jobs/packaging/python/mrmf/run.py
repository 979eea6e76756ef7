"""A run folder as an object: its records, its model, and what can be done with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from . import program
from .config import Config
from .errors import ConfigError, DataError, PathLike, called
from .progress import epochs_of, read_json
from .temporary import work_folder
from .writing import write


class Run:
    """A run, finished or not. It holds the folder's name alone; everything is read when it is asked for."""

    def __init__(self, folder: PathLike):
        self.folder = Path(folder)
        if not (self.folder / "config.toml").is_file():
            raise ConfigError(f"{folder}: is no run folder (there is no config.toml); give the folder that run.folder named")

    def __repr__(self) -> str:
        return f"mrmf.load({str(self.folder)!r})" + ("" if self.done else "  # not done")

    @property
    def done(self) -> bool:
        return (self.folder / "result.json").is_file()

    @property
    def config(self) -> Config:
        """The effective configuration."""
        return Config.read(self.folder / "config.toml")

    @property
    def result(self) -> Dict[str, Any]:
        """What the finished run came to (docs/guide/run-folder.md). ConfigError where it is not done."""
        if not self.done:
            raise ConfigError(f"{self.folder}: the run is not done; train again to continue it")
        return read_json(self.folder / "result.json")

    @property
    def epochs(self) -> List[Dict[str, Any]]:
        """A dict for each epoch."""
        return epochs_of(self.folder)

    @property
    def history(self) -> Any:
        """The epochs as a pandas DataFrame where pandas is installed, else as a list of dicts."""
        try:
            import pandas
        except ImportError:
            return self.epochs
        return pandas.DataFrame(self.epochs)

    @property
    def parameters(self) -> Dict[str, np.ndarray]:
        """The parameters and running statistics of the model that is used: {"conv1/weight": array, ...}."""
        import h5py
        arrays: Dict[str, np.ndarray] = {}
        try:
            file = h5py.File(self.model_file, "r")
        except OSError as error:
            raise DataError(f"{self.model_file}: cannot be read as a model; restore it from a copy, or train again") from error
        with file:
            for group in ("parameters", "state"):
                if group in file:
                    file[group].visititems(
                        lambda name, item: arrays.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
        return arrays

    @property
    def model_file(self) -> Path:
        """The file of the model that is used: of the best epoch where it was kept, else of the last."""
        for name in ("best.h5", "final.h5"):
            if (self.folder / "checkpoints" / name).is_file():
                return self.folder / "checkpoints" / name
        raise ConfigError(f"{self.folder}: there is no trained model; train again to continue the run")

    def evaluate(self, samples: Any = None, labels: Any = None, *, files: Optional[Sequence[PathLike]] = None,
                 split: str = "validation") -> Dict[str, Any]:
        """Errors or scores, as ``mrmf evaluate --json`` gives them: of the run's own split, of ``files``, or of arrays."""
        if samples is None:
            return program.run_json(["evaluate", self.folder, "--split", split, *_files(files)])
        if labels is None:
            raise ConfigError("evaluate wants labels with samples; predict needs none")
        with work_folder() as work:
            path, _ = self._write(work, samples, labels)
            with called(path, "the arrays"):
                scores = program.run_json(["evaluate", self.folder, "--files", path])
            del scores["files"]  # which are gone
            return scores

    def predict(self, samples: Any, *, what: str = "prediction", dropout: int = 0) -> np.ndarray:
        """The outputs for samples, a row for each, in the labels' own units: (samples, 1) for one label.

        ``what`` is "prediction", "probability" or "class" (of models of classes), or "deviation" (with ``dropout``
        passes). Nothing stays on disk.
        """
        import h5py
        with work_folder() as work:
            path, names = self._write(work, samples, None)
            output = work / "out.h5"
            words: List[PathLike] = ["predict", self.folder, "--files", path, "-o", output]
            for name in names:
                words += ["--samples", name]
            with called(path, "the array"):
                program.run([*words, *(["--dropout", str(dropout)] if dropout else [])])
            with h5py.File(output, "r") as file:
                if what not in file:
                    raise ConfigError(f"predictions of {self.folder} have no '{what}'; there are {', '.join(file)}")
                return file[what][()]

    def _write(self, work: Path, samples: Any, labels: Any) -> Tuple[Path, List[str]]:
        """A file of these arrays, under the names that the run reads; gives those of samples, too."""
        of = self.config.data
        given = of.validation.samples or of.train.samples
        names = [given] if isinstance(given, str) else list(given)
        parts = dict(samples) if isinstance(samples, dict) else {names[0]: samples}
        if sorted(parts) != sorted(names):
            raise DataError(f"the model reads {', '.join(names)}, and {', '.join(parts)} was given")
        label_name = of.validation.labels or of.train.labels or "labels"
        return write(work / "samples.h5", parts, labels, names=(names[0], label_name)), names

    def export(self, path: PathLike, overwrite: bool = False) -> Path:
        """Writes the model for other programs: ``.onnx`` or ``.safetensors``."""
        program.run(["export", self.folder, "-o", path, *(["--overwrite"] if overwrite else [])])
        return Path(path)

    def plot(self, path: Optional[PathLike] = None) -> Any:
        """Draws losses over epochs with matplotlib. With a path, saves the picture there, too. Gives the figure."""
        from . import pictures
        figure = pictures.losses(self.epochs, f"loss ({self.config['training.loss']})", str(self.folder))
        if path is not None:
            figure.savefig(path)
        return figure


def _files(files: Optional[Sequence[PathLike]]) -> List[PathLike]:
    return [] if files is None else ["--files", *files]
