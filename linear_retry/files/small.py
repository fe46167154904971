"""What does a small file of the user's hold, or is it to hold?"""

from __future__ import annotations

import os
import re
from pathlib import Path

from linear_retry.files.whole import whole_file

MAX_BYTES = 64 * 1024
NOT_TEXT = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def named(path: str | os.PathLike[str]) -> str:
    """`path`, as it can be printed."""
    return NOT_TEXT.sub("\ufffd", os.fspath(path))


def read(path: str | os.PathLike[str]) -> bytes:
    """Its content: of a longer file than `MAX_BYTES` one byte more than these.

    Raises `ValueError`, which names the file and says why it cannot be read.
    """
    try:
        with open(path, "rb") as file:
            return file.read(MAX_BYTES + 1)  # never all of what may be a device or a dump
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ValueError(f"{named(path)}: cannot be read ({reason})") from error


def write(path: str | os.PathLike[str], content: bytes) -> None:
    """Make `path` hold `content`; another process finds the old file or the whole new one.

    Raises `ValueError`, which names the file and says why it cannot be written.
    """
    try:
        with whole_file(Path(path)) as file:
            file.write(content)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ValueError(f"{named(path)}: cannot be written ({reason})") from error
