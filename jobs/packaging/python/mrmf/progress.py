"""Progress of a run, read from its records while it trains."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Dict, List, Union

from .errors import DataError


def epochs_of(folder: Path) -> List[Dict[str, Any]]:
    """The records of a run's epochs so far. A line that is being written is left for later."""
    path = folder / "epochs.jsonl"
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8", errors="replace")
    return [_parsed(path, line) for line in text[:text.rfind("\n") + 1].splitlines() if line.strip()]


def read_json(path: Path) -> Dict[str, Any]:
    """A record that is one JSON object."""
    return _parsed(path, path.read_text(encoding="utf-8", errors="replace"))


def _parsed(path: Path, text: str) -> Dict[str, Any]:
    try:
        return json.loads(text)
    except ValueError as error:
        raise DataError(f"{path}: is damaged; restore it from a copy, or train again") from error


def _planned(folder: Path) -> int:
    """Epochs of the plan, at most; 0 while it is not there."""
    path = folder / "plan.json"
    try:
        return sum(step.get("epochs", 0) for step in json.loads(path.read_text())["steps"])
    except (OSError, ValueError, KeyError):
        return 0


class Progress:
    """Shows epochs as they end: a bar by tqdm where that is installed, else a line on a terminal, else nothing."""

    def __init__(self, folder: Path, wanted: Union[bool, None]):
        self._folder, self._shown, self._bar = folder, 0, None
        self._wanted = wanted is not False
        self._line = wanted or sys.stderr.isatty()

    def __call__(self) -> None:
        if not self._wanted:
            return
        try:
            epochs = epochs_of(self._folder)
        except DataError:  # a record is no reason to end the training
            return
        if len(epochs) <= self._shown:
            return
        last, planned = epochs[-1], _planned(self._folder)
        text = f"{last['role']} {last['resolution']} train {_number(last['train_loss'])} " \
               f"validation {_number(last['validation_loss'])}"
        self._show(text, len(epochs), max(planned, len(epochs)))
        self._shown = len(epochs)

    def _show(self, text: str, done: int, planned: int) -> None:
        if self._bar is None and self._shown == 0:
            try:
                from tqdm.auto import tqdm
                self._bar = tqdm(total=planned, unit="epoch", disable=None if not self._line else False)
            except ImportError:
                pass
        if self._bar is not None:
            self._bar.total = planned
            self._bar.set_postfix_str(text, refresh=False)
            self._bar.update(done - self._shown)
        elif self._line:
            print(f"\repoch {done} of {planned}: {text}   ", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
        elif self._line and self._shown:
            print(file=sys.stderr)


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}"
