"""A process's log, which outlives it."""

import os
import pickle
import struct
from pathlib import Path
from typing import BinaryIO

from linear_retry.testing import Entry

_LENGTH = struct.Struct(">I")


class Written(list[Entry]):
    """A log that is in a file only: for hours it must not grow in here.

    Each entry is one write, so what is in it outlives even SIGKILL. Its length goes before it: a
    write is not there at once for whoever reads meanwhile.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def append(self, entry: Entry) -> None:
        written = pickle.dumps(entry)
        os.write(self._file, _LENGTH.pack(len(written)) + written)


class Testimony(Written):
    """A log that is in a file too."""

    def append(self, entry: Entry) -> None:
        super().append(entry)
        list.append(self, entry)


def read_testimony(path: Path) -> list[Entry]:
    """What has been written so far; nothing where there is no file yet."""
    if not path.exists():
        return []
    with path.open("rb") as file:
        return read_new(file)


def read_new(file: BinaryIO) -> list[Entry]:
    """The whole entries from here on; the file then stands behind the last of them."""
    entries: list[Entry] = []
    while True:
        start, head = file.tell(), file.read(_LENGTH.size)
        length = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else 0
        written = file.read(length)
        if not length or len(written) < length:
            file.seek(start)
            return entries
        entries.append(pickle.loads(written))
