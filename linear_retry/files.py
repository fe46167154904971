"""Reads the user's small files up to a limit, and writes them completely or not at all."""

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
    """Returns `path` in printable form."""
    return NOT_TEXT.sub("\ufffd", os.fspath(path))


def read_small(path: str | os.PathLike[str]) -> bytes:
    """Reads a file; of one longer than `MAX_BYTES`, only one byte more than that.

    Raises `ValueError`, which names the file and says why it cannot be read.
    """
    try:
        with open(path, "rb") as file:
            return file.read(MAX_BYTES + 1)  # never all of it: it may be a device or a huge file
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ValueError(f"{printable_path(path)}: cannot be read ({reason})") from error


def decode_small(content: bytes, errors: str = "strict") -> str:
    """Decodes the content of a small file; `errors` is that of `bytes.decode`.

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
    """Reads the text in a small file. Raises `ValueError` with the file and the reason."""
    content = read_small(path)
    try:
        return decode_small(content)
    except ValueError as error:
        raise ValueError(f"{printable_path(path)}: {error}") from error


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes `content` to `path`; other processes see the old file or the complete new one.

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
    """Opens a file that is renamed to `target` when the `with` ends without an exception.

    Until then it has another name in the same directory, and an exception removes it. It is synced
    to disk before it gets its name. The umask decides who may read it; if it is `private`, only its
    owner. Raises `OSError`, and `ValueError` for a NUL.
    """
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.part")
    mode = 0o600 if private else 0o666
    # A killed process may have left it: in a container, process ids repeat.
    unfinished.unlink(missing_ok=True)
    try:
        # Inside the `try`: a signal in between would leave the file.
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)  # still there only if it was not renamed
