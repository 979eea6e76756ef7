"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator


@contextmanager
def whole_file(target: Path) -> Iterator[str]:
    """A temporary path beside ``target``, which takes its place when the block ends, and is removed where it fails."""
    number, temporary = tempfile.mkstemp(dir=target.resolve().parent, prefix=f".{target.name}.")
    os.close(number)
    try:
        yield temporary
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
