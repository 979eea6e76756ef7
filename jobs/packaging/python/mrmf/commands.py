"""The program's commands as functions: train, plan, tune, compare, plot, load."""

from __future__ import annotations

import os
import warnings
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Union

from . import program
from .config import Config
from .errors import ConfigError, DataError, PathLike, Stopped, called
from .progress import Progress
from .run import Run
from .temporary import work_folder
from .writing import begins_with, write

Source = Union[Config, PathLike]


def load(folder: PathLike) -> Run:
    """A run by its folder."""
    return Run(folder)


def init(files: Union[PathLike, Sequence[PathLike]], *, output: Optional[PathLike] = None, folder: Optional[PathLike] = None,
         samples: Optional[str] = None, labels: Optional[str] = None, axes: Optional[str] = None,
         overwrite: bool = False) -> Config:
    """A configuration that trains on these files at once, as ``mrmf init`` writes it (to ``output``, where given)."""
    names = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    with work_folder() as work:
        path = Path(output) if output is not None else work / "run.toml"
        words: List[Any] = ["init", *names, "-o", path]
        for option, value in (("--folder", folder), ("--samples", samples), ("--labels", labels), ("--axes", axes)):
            words += [option, value] if value is not None else []
        with called(path, "the configuration") if output is None else nullcontext():
            program.run([*words, *(["--overwrite"] if overwrite else [])])
        return Config.read(path)


def train(source: Any, labels: Any = None, *, folder: Optional[PathLike] = None, epochs: Optional[int] = None,
          batch: Optional[int] = None, axes: Optional[str] = None, set: Optional[Dict[str, Any]] = None, ranks: int = 1,
          overwrite: bool = False, progress: Optional[bool] = None) -> Run:
    """Trains, and gives the run.

    ``source`` is a configuration (a Config, or the path of a TOML file), samples beside ``labels``, or a Run. Arrays are
    written to ``FOLDER.h5`` (see ``mrmf.write``), and ``mrmf init`` chooses what is not set; of a dict of arrays, the
    model reads all. ``set`` overrides keys: ``set={"training.batch": 64}``. ``ranks`` starts so many processes under
    mpirun.

    A run that was stopped continues when the same call is made again. A Run continues in its own folder: with
    ``epochs``, one that is done trains its last phase until that has so many (``mrmf train --continue``). An interrupt
    saves and raises Stopped, whose ``run`` is what there is. Progress is shown on terminals and in notebooks;
    ``progress=False`` shows none.
    """
    values = dict(set or {})
    for key, value in (("training.epochs", epochs), ("training.batch", batch), ("run.folder", folder)):
        if value is not None:
            values[key] = str(value) if key == "run.folder" else value
    Config(values)  # a key that there is not is refused before anything is written
    if isinstance(source, Run):
        return _continue(source, labels, values, ranks, overwrite, progress)
    if isinstance(source, Config):
        return _train(source.copy(), values, ranks, overwrite, progress)
    if isinstance(source, (str, os.PathLike)) and labels is None:
        return _train(Config.read(source), values, ranks, overwrite, progress)
    if labels is None:
        raise ConfigError("train wants a configuration, samples and labels, or a run")
    where = Path(values.setdefault("run.folder", "runs/first"))
    with _data_of(where, source, labels, axes, overwrite) as data:
        config = init(data, folder=where, axes=axes)
        if isinstance(source, Mapping) and len(source) > 1:
            config["data.train.samples"] = list(source)
        if config.data.not_finite == "skip" and "data.not_finite" not in values:
            warnings.warn(f"{data}: rows that hold NaN or infinity are left out; set={{'data.not_finite': 'refuse'}} makes "
                          "them an error", stacklevel=2)
        return _train(config, values, ranks, overwrite, progress)


def _train(config: Config, values: Dict[str, Any], ranks: int, overwrite: bool, progress: Optional[bool]) -> Run:
    for key, value in values.items():
        config[key] = value
    where = Path(config["run.folder"])
    _make_folder(where.parent)
    with _written(config) as path:
        return _run_training([path, *(["--overwrite"] if overwrite else [])], where, ranks, progress)


def _continue(run: Run, labels: Any, values: Dict[str, Any], ranks: int, overwrite: bool, progress: Optional[bool]) -> Run:
    if labels is not None or overwrite:
        raise ConfigError("a run continues with its own data in its own folder; leave labels and overwrite out")
    return _run_training(["--continue", run.folder, *program.settings(values)], run.folder, ranks, progress)


def _run_training(words: Sequence[Any], where: Path, ranks: int, progress: Optional[bool]) -> Run:
    shown = Progress(where, progress)
    try:
        program.run(["train", *words], ranks, shown)
    except Stopped as stopped:
        stopped.run = Run(where) if _is_run(where) else None
        raise
    finally:
        shown()
        shown.close()
    return Run(where)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot be made; {error.strerror}") from error


def _is_run(folder: Path) -> bool:
    return (folder / "config.toml").is_file()


@contextmanager
def _data_of(folder: Path, samples: Any, labels: Any, axes: Optional[str], overwrite: bool) -> Iterator[Path]:
    """The file of a run's arrays, which stays where there is a run afterwards."""
    _make_folder(folder.parent)
    data = folder.with_name(folder.name + ".h5")
    if data.exists() and not overwrite:
        if not _is_run(folder):
            raise ConfigError(f"{data}: is there already; give overwrite=True, or another folder")
        if not begins_with(data, samples, labels):
            raise ConfigError(f"{data}: holds other arrays than these; give overwrite=True, or another folder")
        yield data
        return
    write(data, samples, labels, axes=axes, overwrite=overwrite)
    try:
        yield data
    except BaseException:
        if not _is_run(folder):
            data.unlink()
        raise


@contextmanager
def _written(config: Source) -> Iterator[Path]:
    """A configuration in a file, while it is needed."""
    if not isinstance(config, Config):
        yield Path(config)
        return
    with work_folder() as folder:
        path = folder / "run.toml"
        config.write(path)
        with called(path, "the configuration"):
            yield path


def plan(config: Source, *, set: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
    """What a run would train and fuse, and its cost, before anything runs (``mrmf plan --json``)."""
    with _written(config) as path:
        return program.run_json(["plan", path, *program.settings(set or {})])


def data(config: Source, *, set: Optional[Dict[str, Any]] = None) -> str:
    """What the data of a configuration are, and what will be slow or go wrong, as text for people."""
    with _written(config) as path:
        return program.run(["data", path, *program.settings(set or {})])


def tune(config: Source, *, folder: Optional[PathLike] = None, output: Optional[PathLike] = None, ranks: int = 1,
         rates: Sequence[float] = (), batches: Sequence[int] = (), overwrite: bool = False) -> Dict[str, Any]:
    """Finds learning rate, batch and rule (``mrmf tune --json``). The same call again continues where it stopped."""
    options: List[Any] = []
    for option, value in (("--folder", folder), ("-o", output)):
        options += [option, value] if value is not None else []
    for option, numbers in (("--rates", rates), ("--batches", batches)):
        options += [option, ",".join(str(number) for number in numbers)] if numbers else []
    with _written(config) as path:
        return program.run_json(["tune", path, *options, *(["--overwrite"] if overwrite else [])], ranks)


def plot(runs: Sequence[Union[Run, PathLike]], path: Optional[PathLike] = None) -> Any:
    """Draws validation losses of runs over what their training cost: what one saved against another, by matplotlib.

    With a path, saves the picture there, too. Gives the figure.
    """
    from . import pictures
    opened = [run if isinstance(run, Run) else Run(run) for run in runs]
    picture = pictures.costs({str(run.folder): run.epochs for run in opened})
    if path is not None:
        picture.savefig(path)
    return picture


def compare(runs: Sequence[Union[Run, PathLike]]) -> str:
    """Finished runs side by side, as text: costs, losses, and what each saved."""
    return program.run(["compare", *(run.folder if isinstance(run, Run) else run for run in runs)])
