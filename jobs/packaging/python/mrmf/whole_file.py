"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Iterator


@contextmanager
def whole_file(target: Path) -> Iterator[str]:
    """A path beside ``target`` at which the block makes a file. That takes the target's place when the block ends, and is
    removed where it fails.

    There is no file before the block makes it: one that is cut to nothing first, ext4 writes to disk as it is closed.
    """
    temporary = str(target.resolve().with_name(f".{target.name}.{secrets.token_hex(4)}"))
    try:
        yield temporary
        os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
