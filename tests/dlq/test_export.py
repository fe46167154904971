"""An export is whole, and is read back as it was."""

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.dlq import read_export
from linear_retry.dlq.export import Exported, line_of, parse_line, write_export
from linear_retry.dlq.letters.letter import read_letter
from linear_retry.errors import DeadLetterError
from tests.dlq.sample_letters import RECORDS, RESOLUTIONS, our_letter, our_records

_EXPORTED = st.builds(Exported, (our_records() | RECORDS).map(read_letter), st.none() | RESOLUTIONS)


@given(_EXPORTED)
def test_what_is_written_is_read(exported: Exported) -> None:
    """Place, time, key, value, headers, each byte of them, and what became of it: all come back."""
    line = line_of(exported)
    assert exported == parse_line(line)
    assert 1 == line.count(b"\n")
    assert exported.state.value == json.loads(line)["state"]


@given(st.lists(_EXPORTED, max_size=5))
def test_a_file_holds_them_in_order(exported: list[Exported]) -> None:
    """As many lines as letters, and `read_export` gives them back in their order."""
    with TemporaryDirectory() as directory:
        target = Path(directory) / "orders.jsonl"
        assert len(exported) == write_export(target, exported)
        assert exported == list(read_export(target))


def test_bytes_that_are_no_text_are_in_base64() -> None:
    """UTF-8 stands there as text for people; anything else as an object that says so."""
    text = json.loads(line_of(Exported(our_letter(key="é".encode(), value=b"\xff"))))
    assert ("é", {"base64": "/w=="}) == (text["key"], text["value"])


def test_null_and_empty_stay_what_they_are() -> None:
    """A tombstone is no empty message, and neither is a header without a value."""
    letter = our_letter(key=None, value=b"", headers=(("a", None), ("a", b"")))
    read = parse_line(line_of(Exported(letter))).letter
    assert (None, b"", ("a", None), ("a", b"")) == (read.key, read.value, *read.headers[:2])


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    """Whatever ends it on the way, Ctrl-C too: no part of it stays, and an older file does."""
    target = tmp_path / "orders.jsonl"
    target.write_text("older")

    def breaking() -> Iterator[Exported]:
        yield Exported(our_letter())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_export(target, breaking())
    assert ([target], "older") == (list(tmp_path.iterdir()), target.read_text())


def test_a_file_is_its_owners(tmp_path: Path) -> None:
    """Payloads are in it: nobody else may read it until its owner says so."""
    target = tmp_path / "orders.jsonl"
    write_export(target, [])
    assert 0o600 == target.stat().st_mode & 0o777


@pytest.mark.parametrize(
    "line",
    ["", "{", "[]", "{}", '{"v": 2}', '{"v": 1, "topic": 3}', "null", '"text"'],
)
def test_another_file_is_reported_with_its_line(tmp_path: Path, line: str) -> None:
    """One sentence that names file and line."""
    target = tmp_path / "orders.jsonl"
    target.write_bytes(line_of(Exported(our_letter())) + line.encode() + b"\n")
    with pytest.raises(DeadLetterError, match=r"orders\.jsonl:2: not a line of an export"):
        list(read_export(target))
