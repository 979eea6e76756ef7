"""Values and tables as TOML text, and back. Reading takes Python's own reader, of 3.11 on, or the package tomli."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Dict, Mapping

_BARE = re.compile(r"^[A-Za-z0-9_-]+$")


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's."""
    return value.tolist() if hasattr(value, "tolist") else value


def value_text(value: Any) -> str:
    """A value as TOML writes it, on one line. TypeError for what TOML has no form for."""
    value = _plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
        text = repr(value)
        return text if "." in text or "e" in text else text + ".0"
    if isinstance(value, str) or hasattr(value, "__fspath__"):
        return json.dumps(str(value), ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key_text(key)} = {value_text(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(value_text(item) for item in value) + "]"
    raise TypeError(f"a configuration holds numbers, texts, lists and tables, and no {type(value).__name__}")


def key_text(key: str) -> str:
    return key if _BARE.match(key) else json.dumps(key)


def dumps(tables: Mapping[str, Any]) -> str:
    """A document: a table for each key whose value is a table, what lies deeper on lines of its own."""
    parts = [f"{key_text(key)} = {value_text(value)}\n" for key, value in tables.items()
             if not isinstance(value, Mapping)]
    for name, table in tables.items():
        if isinstance(table, Mapping):
            lines = "".join(f"{key_text(key)} = {value_text(value)}\n" for key, value in table.items())
            parts.append(f"[{key_text(name)}]\n{lines}")
    return "\n".join(parts)


def loads(text: str) -> Dict[str, Any]:
    try:
        import tomllib
    except ModuleNotFoundError:
        import tomli as tomllib  # type: ignore[no-redef]  # Python 3.9 and 3.10; the wheel requires it there
    return tomllib.loads(text)
