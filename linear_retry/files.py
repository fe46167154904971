"""Small files of the user's: read in part, and written whole or not at all."""

import codecs
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

MAX_BYTES = 64 * 1024
NOT_TEXT = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def printable_path(path: str | os.PathLike[str]) -> str:
    """`path`, as it can be printed."""
    return NOT_TEXT.sub("\ufffd", os.fspath(path))


def read_small(path: str | os.PathLike[str]) -> bytes:
    """Its content: of a longer file than `MAX_BYTES` one byte more than these.

    Raises `ValueError`, which names the file and says why it cannot be read.
    """
    try:
        with open(path, "rb") as file:
            return file.read(MAX_BYTES + 1)  # never all of what may be a device or a dump
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ValueError(f"{printable_path(path)}: cannot be read ({reason})") from error


def decode_small(content: bytes, errors: str = "strict") -> str:
    """The text that is the content of a small file; `errors` is that of `bytes.decode`.

    Raises `ValueError` with the reason.
    """
    if len(content) > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES} bytes")
    if b"\0" in content:
        raise ValueError(f"byte {content.index(0)} is NUL, so it is not text")
    if content.startswith(codecs.BOM_UTF8):
        raise ValueError("it begins with a byte order mark; save it as UTF-8 without one")
    try:
        return content.decode(errors=errors)
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8") from error


def read_text(path: str | os.PathLike[str]) -> str:
    """The text in a small file. Raises `ValueError`, which names the file and says why not."""
    content = read_small(path)
    try:
        return decode_small(content)
    except ValueError as error:
        raise ValueError(f"{printable_path(path)}: {error}") from error


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Make `path` hold `content`; another process finds the old file or the whole new one.

    Raises `ValueError`, which names the file and says why it cannot be written.
    """
    try:
        with atomic_file(Path(path)) as file:
            file.write(content)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ValueError(f"{printable_path(path)}: cannot be written ({reason})") from error


@contextmanager
def atomic_file(target: Path, *, private: bool = False) -> Iterator[IO[bytes]]:
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
