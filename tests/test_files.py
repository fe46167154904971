"""A small file is written whole or not at all."""

import os
from pathlib import Path

import pytest

from linear_retry.files import atomic_file, printable_path, read_small, write_atomically


def test_what_is_written_is_there(tmp_path: Path) -> None:
    """In place of what was, and nothing lies beside it."""
    path = tmp_path / "one.json"
    for content in (b"[1]", b"[2, 3]"):
        write_atomically(path, content)
        assert content == read_small(path)
    assert [path] == list(tmp_path.iterdir())


def test_others_may_read_it_as_they_might_any_file(tmp_path: Path) -> None:
    """A service of another user reads it: its mode is what the umask leaves, as with `open`."""
    write_atomically(tmp_path / "one.json", b"[1]")
    (tmp_path / "other.json").write_bytes(b"[1]")
    modes = {os.stat(path).st_mode for path in tmp_path.iterdir()}
    assert 1 == len(modes)


def test_what_cannot_be_written_leaves_all_as_it_was(tmp_path: Path) -> None:
    """No directory, a directory in its place, no name at all: one sentence, and no remains."""
    (tmp_path / "full" / "inside").mkdir(parents=True)
    for path in (tmp_path / "missing" / "one.json", tmp_path / "full", tmp_path / "a\0b"):
        with pytest.raises(ValueError, match=r"cannot be written \(") as caught:
            write_atomically(path, b"[1]")
        assert str(caught.value).startswith(printable_path(path))
    assert [tmp_path / "full"] == list(tmp_path.iterdir())


def test_what_one_that_was_killed_has_left_is_in_nobodys_way(tmp_path: Path) -> None:
    """A container's processes have the same numbers again."""
    path = tmp_path / "one.json"
    with atomic_file(path):
        (left,) = tmp_path.iterdir()
    left.write_bytes(b"[1")
    write_atomically(path, b"[1]")
    assert b"[1]" == read_small(path)
    assert [path] == list(tmp_path.iterdir())
