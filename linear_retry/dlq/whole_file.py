"""How does a file come into being whole, or not at all?"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def whole_file(target: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which has the name `target` once the `with` ends without an exception.

    Until then it lies beside it under another name, and is removed where an exception ends the
    `with`. What is there once it has its name is on the disk. Raises `OSError`.
    """
    descriptor, name = tempfile.mkstemp(
        dir=target.parent, prefix=f".{target.name}.", suffix=".part"
    )
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    finally:
        Path(name).unlink(missing_ok=True)  # it is there only where it has not become `target`
