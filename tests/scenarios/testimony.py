"""A process's log, which outlives it."""

import os
import pickle
from pathlib import Path

from linear_retry.testing import Entry


class Written(list[Entry]):
    """A log that is in a file only: for hours it must not grow in here.

    Each entry is one write, so what is in it outlives even SIGKILL.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def append(self, entry: Entry) -> None:
        os.write(self._file, pickle.dumps(entry))


class Testimony(Written):
    """A log that is in a file too."""

    def append(self, entry: Entry) -> None:
        super().append(entry)
        list.append(self, entry)


def read_testimony(path: Path) -> list[Entry]:
    """What has been written so far; nothing where there is no file yet."""
    entries: list[Entry] = []
    if not path.exists():
        return entries
    with path.open("rb") as file:
        while True:
            try:
                entries.append(pickle.load(file))
            except EOFError:
                return entries
