"""A configuration as an object: keys as attributes, from and to TOML, checked by the program."""

from __future__ import annotations

import copy
import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, Union

from . import program, toml
from .errors import ConfigError, DataError, UnknownKeyError
from .temporary import whole_file


@lru_cache(maxsize=1)
def keys() -> Dict[str, Dict[str, Any]]:
    """Every key of a configuration, by its full name: "expected", "meaning" and "default", as the program has them.

    Keys of a layer (``model.layers``) and of a stage (``method.stages``) are not among them.
    """
    tables = ("data.", "model.", "training.", "method.", "tournament.", "run.")
    entries = [entry for entry in program.run_json(["presets", "--keys"])["keys"] if entry["key"].startswith(tables)]
    for entry in entries:  # written as TOML; of these values, JSON's form is the same
        entry["default"] = None if entry["default"] is None else json.loads(entry["default"])
    return {entry["key"]: entry for entry in entries}


@lru_cache(maxsize=None)
def _below(name: str) -> Tuple[str, ...]:
    """What may follow a table's name, of keys and of tables; of the whole configuration, ""."""
    start = name + "." if name else ""
    return tuple(sorted({key[len(start):].split(".")[0] for key in keys() if key.startswith(start)}))


class Section:
    """A part of a configuration, such as ``config.training``. Keys are attributes: ``config.training.batch = 64``."""

    def __init__(self, values: Dict[str, Any], name: str):
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_name", name)

    def _full(self, key: str) -> str:
        return f"{self._name}.{key}" if self._name else key

    def __getattr__(self, key: str) -> Any:
        if key.startswith("_"):
            raise AttributeError(key)
        value = self._values.get(key)
        is_table = self._full(key) not in keys() and bool(_below(self._full(key)))
        if is_table and (value is None or isinstance(value, dict)):
            return Section(self._values.setdefault(key, {}), self._full(key))
        if value is None:
            if self._full(key) not in keys():
                raise UnknownKeyError(self._unknown(key))
            return keys()[self._full(key)]["default"]
        return value

    def __setattr__(self, key: str, value: Any) -> None:
        if self._full(key) not in keys() and not _below(self._full(key)):
            raise UnknownKeyError(self._unknown(key))
        self._values[key] = value

    def __delattr__(self, key: str) -> None:
        self._values.pop(key, None)

    def __dir__(self) -> List[str]:
        return list(_below(self._name))

    def __repr__(self) -> str:
        return f"<{self._name or 'configuration'}: {toml.value_text(_set_only(self._values))}>"

    def _unknown(self, key: str) -> str:
        import difflib
        near = difflib.get_close_matches(key, _below(self._name), 1)
        text = f"there is no key '{self._full(key)}'"
        return text + (f"; do you mean '{self._full(near[0])}'?" if near else "; mrmf.keys() lists all")


def _set_only(values: Mapping[str, Any]) -> Dict[str, Any]:
    """Without the empty tables that looking at keys leaves behind."""
    result = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            value = _set_only(value)
            if not value:
                continue
        result[key] = value
    return result


class Config(Section):
    """A configuration. What is not set has the program's default.

    Examples:
        >>> config = mrmf.Config.read("run.toml")
        >>> config.training.batch = 64
        >>> config["method.name"] = "auto"
    """

    def __init__(self, values: Optional[Mapping[str, Any]] = None):
        super().__init__({}, "")
        for key, value in (values or {}).items():
            self[key] = value

    @classmethod
    def read(cls, path: Union[str, os.PathLike]) -> "Config":
        """Reads a TOML file. ConfigError, with the program's line, where the file is wrong."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read; {error.strerror}") from error
        try:
            return cls.from_toml(text)
        except ConfigError:
            program.run(["plan", path])  # says it with file, line and advice
            raise

    @classmethod
    def from_toml(cls, text: str) -> "Config":
        """From the text of a TOML file."""
        try:
            return cls(toml.loads(text))
        except ValueError as error:
            raise ConfigError(f"the text is no TOML; {error}") from error

    def to_toml(self) -> str:
        return toml.dumps(self.to_dict())

    def to_dict(self) -> Dict[str, Any]:
        return copy.deepcopy(_set_only(self._values))

    def write(self, path: Union[str, os.PathLike]) -> None:
        """Writes the file whole or not at all."""
        text = self.to_toml()
        try:
            with whole_file(Path(path)) as temporary:
                Path(temporary).write_text(text, encoding="utf-8")
        except OSError as error:
            raise DataError(f"{path}: cannot be written; {error.strerror}") from error

    def copy(self) -> "Config":
        return Config(self.to_dict())

    def __getitem__(self, key: str) -> Any:
        at: Any = self
        for part in key.split("."):
            at = getattr(at, part)
        return at

    def __setitem__(self, key: str, value: Any) -> None:
        """Sets a key by its full name; a table sets what lies in it."""
        if isinstance(value, Mapping) and key not in keys():
            for name, item in value.items():
                self[f"{key}.{name}"] = item
            return
        *sections, last = key.split(".")
        at: Any = self
        for part in sections:
            at = getattr(at, part)
            if not isinstance(at, Section):
                raise UnknownKeyError(f"'{part}' of '{key}' is a value, not a table")
        setattr(at, last, value)

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self.to_dict() == other.to_dict()
