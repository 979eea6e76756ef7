"""Arrays of any kind into an HDF5 file that the program reads, piece by piece."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from .errors import ConfigError, DataError
from .temporary import whole_file

_PIECE = 1 << 26  # bytes that are in memory at once
_ITERATED = 1 << 22  # the same for rows that come one by one: caches hold so much, and copies cost least


class _Source:
    """Rows of one data set: their number (None: not known beforehand), and blocks of them."""

    def __init__(self, name: str, rows: Optional[int], blocks: Callable[[], Iterator[np.ndarray]],
                 facts: Optional[Dict[str, str]] = None):
        self.name, self.rows, self.blocks, self.facts = name, rows, blocks, facts or {}
        self.columns: Optional[List[str]] = None  # names of a table's columns


def write(path: Union[str, os.PathLike], samples: Any, labels: Any = None, *, names: Sequence[str] = ("samples", "labels"),
          axes: Optional[str] = None, units: Optional[Mapping[str, str]] = None,
          label_names: Optional[Sequence[str]] = None, overwrite: bool = False,
          compression: Optional[str] = None) -> Path:
    """Writes samples and labels, a row for each sample, into an HDF5 file. Gives its path.

    ``samples`` and ``labels`` are NumPy arrays, memory maps, h5py, zarr, dask, netCDF4 or xarray arrays, tables of pandas,
    a list of ``.npy`` files, or iterators of rows (of one array after the other), which may fill one array again and
    again. ``samples`` may be a dict of such, a data set for each name. Rows are streamed, 64 MB at a time, so arrays may
    be larger than memory. Masked values become NaN.

    ``axes`` names the samples' axes, such as "n c y x"; it is kept as an attribute, and ``mrmf.train`` hands it on. Of
    xarray arrays, names of axes and units are kept. ``units`` gives units by the name of the data set; ``label_names``
    names the labels' columns, as a table's own names do. ``compression`` is h5py's, such as "gzip" or "lzf".

    The file appears whole or not at all. ConfigError where it is there already, unless ``overwrite`` is given. DataError
    for arrays without rows, of objects, of rows that differ in shape, and for labels of another number.
    """
    target = Path(path)
    if target.is_dir():
        raise ConfigError(f"{target}: is a folder; give the name of a file")
    if target.exists() and not overwrite:
        raise ConfigError(f"{target}: is there already; give overwrite=True, or another name")
    if not target.resolve().parent.is_dir():
        raise ConfigError(f"{target}: there is no folder {target.resolve().parent}; make it first")
    sources = _sources(samples, labels, names)
    _require_compression(compression)
    with whole_file(target) as temporary, _created(target, temporary) as file:
        rows = {source.name: _copy(file, source, compression, target) for source in sources}
        _require_same_rows(rows)
        _describe(file, sources, axes, units or {}, label_names, names[1] if labels is not None else None)
    return target


@contextmanager
def _created(target: Path, temporary: str) -> Iterator[Any]:
    """A new HDF5 file, which errors call by the name that it is going to have."""
    import h5py
    with _on_disk(target):
        file = h5py.File(temporary, "w")
    try:
        yield file
    except BaseException:
        with suppress(Exception):  # the first fault is the one to tell
            file.close()
        raise
    with _on_disk(target):
        file.close()


@contextmanager
def _on_disk(target: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError) as error:  # h5py has the reason within its own text
        reason = re.search(r"error message = '([^']*)'", str(error))
        raise DataError(f"{target}: cannot be written: {reason[1] if reason else error}; check its folder, and the rights, "
                        "space and quota there") from error


def _require_compression(name: Optional[str]) -> None:
    import h5py
    known = [one for one in ("gzip", "lzf", "szip") if one in h5py.filters.encode]
    if name is not None and name not in known:
        raise ConfigError(f"compression '{name}' is not known; give one of {', '.join(known)}")


def begins_with(path: Path, samples: Any, labels: Any) -> bool:
    """Whether a file that ``write`` made holds arrays of these shapes with the same first rows. Iterators are not read."""
    import h5py
    with h5py.File(path, "r") as file:
        for source in _sources(samples, labels, ("samples", "labels")):
            block = next(source.blocks(), None) if source.rows is not None else None
            if block is None:
                continue
            stored = file.get(source.name)
            if stored is None or stored.shape != (source.rows, *block.shape[1:]):
                return False
            if not np.array_equal(stored[:len(block)], block, equal_nan=True):
                return False
    return True


def _sources(samples: Any, labels: Any, names: Sequence[str]) -> List[_Source]:
    parts = dict(samples) if isinstance(samples, Mapping) else {names[0]: samples}
    if not parts:
        raise DataError("there are no samples; give an array, or a dict of arrays")
    if labels is not None:
        if names[1] in parts:
            raise ConfigError(f"'{names[1]}' names samples and labels; give names=(samples, labels)")
        parts[names[1]] = labels
    for name in parts:
        if not isinstance(name, str) or not name.strip("/"):
            raise ConfigError(f"{name!r} is no name of a data set; give a text, such as 'samples'")
    return [_source_of(name, value) for name, value in parts.items()]


def _source_of(name: str, value: Any) -> _Source:
    if _is_paths(value):
        return _files_source(name, [Path(one) for one in value])
    if isinstance(getattr(value, "dims", None), tuple) and hasattr(value, "attrs"):  # xarray
        facts = {"axes": " ".join(str(dim) for dim in value.dims)}
        if "units" in value.attrs:
            facts["units"] = str(value.attrs["units"])
        return _array_source(name, value, facts)  # value.data, or asking for it, reads the whole of one that lies in a file
    if hasattr(value, "to_numpy"):  # a table or a column of pandas or polars
        source = _array_source(name, value.to_numpy(), {})
        source.columns = [str(column) for column in value.columns] if hasattr(value, "columns") else None
        return source
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return _array_source(name, value, {})
    if isinstance(value, (list, tuple)):
        return _array_source(name, _stacked(name, value), {})
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, os.PathLike)):
        return _Source(name, None, lambda: _pieces_of_rows(name, iter(value)))
    raise DataError(f"'{name}' is a {type(value).__name__}; give an array, a list of .npy files, or an iterator of rows")


def _is_paths(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) > 0 and all(isinstance(v, (str, os.PathLike)) for v in value) \
        and all(str(v).endswith(".npy") for v in value)


def _stacked(name: str, rows: Sequence[Any]) -> np.ndarray:
    try:
        shapes = [np.shape(row) for row in rows]
    except ValueError:  # a row that is ragged itself
        raise DataError(f"'{name}' has rows of differing lengths; give rows of one shape") from None
    for number, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise _other_shape(name, number, shape, shapes[0])
    return np.asarray(rows)


def _other_shape(name: str, number: int, shape: Tuple[int, ...], first: Tuple[int, ...]) -> DataError:
    return DataError(f"row {number} of '{name}' has shape {tuple(shape)}, and row 0 {tuple(first)}; give rows of one shape")


def _require_numbers(name: str, dtype: np.dtype) -> None:
    if dtype.kind not in "biufc":
        raise DataError(f"'{name}' holds {dtype} elements; give numbers, such as array.astype('float32')")


def _array_source(name: str, array: Any, facts: Dict[str, str]) -> _Source:
    if len(array.shape) == 0:
        raise DataError(f"'{name}' is a single value; give an array with a row for each sample")
    _require_numbers(name, np.dtype(array.dtype))
    count = int(array.shape[0])
    row_bytes = max(1, int(np.prod(array.shape[1:], dtype=np.int64)) * np.dtype(array.dtype).itemsize)
    step = max(1, _PIECE // row_bytes)
    chunks = getattr(array, "chunks", None)
    if chunks:  # whole chunks, so that none is unpacked or computed twice; dask has their lengths, one by one
        chunk = chunks[0] if isinstance(chunks[0], int) else max(chunks[0])
        step = max(chunk, step // chunk * chunk)

    def blocks() -> Iterator[np.ndarray]:
        for first in range(0, count, step):
            yield _unmasked(name, array[first:first + step])

    return _Source(name, count, blocks, facts)


def _unmasked(name: str, block: Any) -> np.ndarray:
    if np.ma.is_masked(block):
        if block.dtype.kind not in "fc":
            raise DataError(f"'{name}' has masked values, and {block.dtype} has no NaN for them; give numbers, such as "
                            "array.astype('float32')")
        block = block.filled(np.nan)
    return np.asarray(block)


def _files_source(name: str, paths: List[Path]) -> _Source:
    arrays = []
    for path in paths:
        try:
            arrays.append(np.load(path, mmap_mode="r", allow_pickle=False))
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: cannot be read as a .npy file; {error}") from error
        if arrays[-1].ndim == 0 or arrays[-1].shape[1:] != arrays[0].shape[1:]:
            raise DataError(f"{path}: has rows of shape {arrays[-1].shape[1:]}, and {paths[0]} {arrays[0].shape[1:]}; "
                            "give files of one shape")
    parts = [_array_source(name, array, {}) for array in arrays]

    def blocks() -> Iterator[np.ndarray]:
        for part in parts:
            yield from part.blocks()

    return _Source(name, sum(part.rows or 0 for part in parts), blocks)


def _pieces_of_rows(name: str, rows: Iterator[Any]) -> Iterator[np.ndarray]:
    """Rows of an iterator, some at a time. A piece's memory is the next one's, too.

    Each row is copied before the next is asked for: an iterator may fill the same array again and again.
    """
    head = next(rows, None)
    if head is None:
        return
    first = _row(name, head)
    shape, number = first.shape, 0
    chunk = _chunk_rows(first.nbytes)
    piece = np.empty((chunk * max(1, _ITERATED // max(1, chunk * first.nbytes)), *shape), first.dtype)
    rest = chain([first], rows)
    while True:
        at = 0
        for at, row in enumerate(islice(rest, len(piece)), 1):
            if type(row) is not np.ndarray:
                row = _row(name, row)
            if row.shape != shape:
                raise _other_shape(name, number + at - 1, row.shape, shape)
            if row.dtype != piece.dtype:
                piece = _for_other_type(name, number, at - 1, piece, row)
            piece[at - 1] = row
        if at == 0:
            return
        number += at
        yield piece[:at]


def _row(name: str, value: Any) -> np.ndarray:
    array = _unmasked(name, value)
    _require_numbers(name, array.dtype)
    return array


def _for_other_type(name: str, written: int, held: int, piece: np.ndarray, row: np.ndarray) -> np.ndarray:
    """The piece as it must be for a row of another type of elements, which the file may have another type for already."""
    _require_numbers(name, row.dtype)
    if np.can_cast(row.dtype, piece.dtype, "same_kind" if written else "safe"):
        return piece
    if written:
        raise DataError(f"row {written + held} of '{name}' holds {row.dtype} elements, and the rows before it {piece.dtype}; "
                        "give rows of one type")
    return piece.astype(np.result_type(piece, row))


def _copy(file: Any, source: _Source, compression: Optional[str], target: Path) -> int:
    """Writes a source's rows; gives their number."""
    dataset, done = None, 0
    for block in source.blocks():
        if block.dtype == np.bool_:
            block = block.astype(np.uint8)
        with _on_disk(target):
            if dataset is None:
                dataset = _data_set(file, source, block, compression)
            if done + block.shape[0] > dataset.shape[0]:
                dataset.resize(max(done + block.shape[0], done * 5 // 4), axis=0)
            _write_rows(dataset, done, block)
        done += block.shape[0]
    if dataset is None or done == 0:
        raise DataError(f"'{source.name}' has no rows; give at least one sample")
    if done < dataset.shape[0]:
        dataset.resize(done, axis=0)
    return done


def _data_set(file: Any, source: _Source, block: np.ndarray, compression: Optional[str]) -> Any:
    """The data set for rows of which these are the first."""
    unknown = source.rows is None
    rows = block.shape[0] if source.rows is None else source.rows
    return file.create_dataset(source.name, (rows, *block.shape[1:]), block.dtype, compression=compression,
                               maxshape=(None, *block.shape[1:]) if unknown else None,
                               chunks=_chunks(block) if unknown or compression else None)


def _write_rows(dataset: Any, first: int, block: np.ndarray) -> None:
    """Writes rows. Whole chunks as they are go past HDF5's cache, where they would be copied twice."""
    count, done = block.shape[0], 0
    rows = dataset.chunks[0] if dataset.chunks else 0
    if rows and dataset.compression is None and first % rows == 0 and block.dtype == dataset.dtype \
            and block.flags.c_contiguous:
        offset = (0,) * (block.ndim - 1)
        while done + rows <= count:
            dataset.id.write_direct_chunk((first + done, *offset), block[done:done + rows])
            done += rows
    if done < count:
        dataset[first + done:first + count] = block[done:]


def _chunks(block: np.ndarray) -> Tuple[int, ...]:
    """Whole rows, about 1 MB of them, as training reads them."""
    return (min(block.shape[0], _chunk_rows(block[0].nbytes)), *block.shape[1:])


def _chunk_rows(row_bytes: int) -> int:
    return max(1, (1 << 20) // max(1, row_bytes))


def _require_same_rows(rows: Dict[str, int]) -> None:
    first = next(iter(rows))
    for name, count in rows.items():
        if count != rows[first]:
            raise DataError(f"'{name}' has {count} rows, and '{first}' {rows[first]}; each sample needs its row")


def _describe(file: Any, sources: List[_Source], axes: Optional[str], units: Mapping[str, str],
              label_names: Optional[Sequence[str]], labels: Optional[str]) -> None:
    for source in sources:
        facts = dict(source.facts)
        if axes and source.name != labels:
            facts["axes"] = axes
        if source.name in units:
            facts["units"] = units[source.name]
        for key, value in facts.items():
            file[source.name].attrs[key] = value
    if labels is not None and label_names is None:
        label_names = sources[-1].columns
    if label_names is not None and labels is not None:
        if len(label_names) != (file[labels].shape[1] if file[labels].ndim > 1 else 1):
            raise ConfigError(f"label_names has {len(label_names)} names for labels of shape {file[labels].shape}")
        file[labels].attrs["names"] = list(label_names)
