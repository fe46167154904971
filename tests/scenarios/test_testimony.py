"""What one process writes, another reads at the same time."""

from pathlib import Path

from linear_retry.scope import Place
from linear_retry.testing import AttemptStarted, Entry
from tests.scenarios.testimony import Written, read_new, read_testimony

_ENTRIES = [AttemptStarted(float(number), "first", Place("orders", 0, number)) for number in (1, 2)]


def test_an_entry_that_is_still_being_written(tmp_path: Path) -> None:
    """Is not there yet, however much of it is, and is read once it is whole. The bug: a test of the
    soak failed with UnpicklingError, once in some ten runs beside other work."""
    path, whole = tmp_path / "growing", tmp_path / "whole"
    written = Written(whole)
    for entry in _ENTRIES:
        written.append(entry)
    content = whole.read_bytes()
    read: list[Entry] = []
    with path.open("wb", buffering=0) as growing, path.open("rb") as file:
        for number in range(len(content)):
            assert len(read) == len(read_testimony(path)) == number * 2 // len(content)
            growing.write(content[number : number + 1])
            read += read_new(file)
    assert _ENTRIES == read == read_testimony(path)


def test_before_the_first_entry(tmp_path: Path) -> None:
    """There may be no file yet."""
    assert [] == read_testimony(tmp_path / "absent")
