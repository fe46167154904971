"""How does a file come into being whole, or not at all?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def whole_file(target: Path, *, private: bool = False) -> Iterator[IO[bytes]]:
    """A file to write to, which has the name `target` once the `with` ends without an exception.

    Until then it lies beside it under another name, and is removed where an exception ends the
    `with`. What is there once it has its name is on the disk. Others may read it as the umask has
    it, or nobody else where it is `private`. Raises `OSError`, and `ValueError` for a NUL.
    """
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.part")
    mode = 0o600 if private else 0o666
    # One that was killed may have left it: a container's processes have the same numbers again.
    unfinished.unlink(missing_ok=True)
    try:
        # Inside the `try`: a signal between the two would leave it there.
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)  # it is there only where it has not become `target`
