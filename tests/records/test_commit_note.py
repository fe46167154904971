"""The note beside a committed offset is read as it was written, and by nobody else."""

from base64 import b64encode
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.records import commit_note
from linear_retry.records.commit_note import (
    MOST_CHARACTERS,
    CommitNote,
    Digests,
    NewerNoteError,
    NotedFailures,
    Undone,
    note_beside,
    read_note,
    write_note,
)
from linear_retry.scope import UNKEYED, Partition

_PLACE = ("orders", 3)
_FAILED = NotedFailures(7, 1_795_000_000_000, 1_795_000_600_000, 1_795_022_200_000)
_NOTE = CommitNote(812, 812, (Undone("message", 812, bytes(range(6)), _FAILED),))
_TEXT = write_note(_NOTE, "billing", _PLACE)


def _failed(count: int, first: int, lasted_s: int, wait: int) -> NotedFailures:
    """Times in tenths of a second, and the last failure whole seconds after the first."""
    last = first + 10 * lasted_s
    return NotedFailures(count, 100 * first, 100 * last, 100 * (last + wait))


_failures = st.builds(
    _failed,
    st.integers(1, 2**31) | st.integers(1, 20),
    st.integers(0, 2**44),
    st.integers(0, 2**40),
    st.integers(0, 2**44),
)
_BASE = 2**40
_undone = st.builds(
    Undone,
    kind=st.sampled_from(("message", "key", "unkeyed")),
    offset=st.integers(_BASE, 2**63 - 1),
    digest=st.binary(min_size=6, max_size=6),
    failures=st.none() | _failures | _failures.map(lambda one: replace(one, is_blocked=True)),
    is_there=st.booleans(),
)
notes = st.builds(
    CommitNote,
    base=st.integers(0, _BASE),
    frontier=st.integers(_BASE, 2**63 - 1),
    undone=st.lists(_undone, min_size=1, max_size=5).map(
        lambda them: tuple(sorted(them, key=lambda one: one.offset))
    ),
    leader_epoch=st.none() | st.integers(0, 2**31 - 1),
    key_id=st.text(max_size=20),
)


def newer_note(group: str, place: Partition) -> str:
    """Returns what a release with another format may write."""
    body = b"something newer"
    signed = commit_note._checksum(body, 2, group, place) + body
    return f"lr2.{b64encode(signed).decode()}"


@given(notes, st.text(), st.text(), st.integers(0, 2**31 - 1))
def test_it_is_read_as_it_was_written(
    note: CommitNote, group: str, topic: str, number: int
) -> None:
    """Whatever the names are; it is ASCII, and short enough for any broker."""
    text = write_note(note, group, (topic, number))
    assert note == read_note(text, group, (topic, number))
    assert text.isascii()
    assert len(text) < 600


@given(st.integers(0, 99), st.integers(0, 99))
def test_a_wait_is_never_shortened(failed: int, due: int) -> None:
    """Times are kept in tenths of a second: the end of a wait is rounded up."""
    exact = NotedFailures(1, 1_000 + failed, 1_000 + failed, 2_000 + due)
    undone = (replace(_NOTE.undone[0], failures=exact),)
    read = read_note(write_note(replace(_NOTE, undone=undone), "b", _PLACE), "b", _PLACE)
    assert read is not None
    found = read.undone[0].failures
    assert found is not None
    assert found.last_ms <= exact.last_ms
    assert exact.retry_at_ms <= found.retry_at_ms < exact.retry_at_ms + 100


def test_a_clock_that_was_put_back_is_no_fault() -> None:
    """What came later is not before what came first."""
    backwards = NotedFailures(2, 9_000, 5_000, -7_000)
    undone = (replace(_NOTE.undone[0], failures=backwards),)
    read = read_note(write_note(replace(_NOTE, undone=undone), "b", _PLACE), "b", _PLACE)
    assert read is not None
    assert NotedFailures(2, 9_000, 9_000, 9_000) == read.undone[0].failures


@given(st.integers(0, 400), st.integers(0, MOST_CHARACTERS))
def test_it_always_fits(keys: int, most: int) -> None:
    """As many as fit, the lowest first; nothing counts as done that only the others hold back."""
    undone = tuple(Undone("key", 3 * n + 5, bytes([n % 256] * 6), _FAILED) for n in range(keys))
    note = CommitNote(5, 3 * keys + 5, undone)
    text = write_note(note, "billing", _PLACE, most)
    assert len(text) <= most
    read = read_note(text, "billing", _PLACE)
    if read is None:
        assert "" == text
        assert not keys or most < 60
        return
    assert undone[: len(read.undone)] == read.undone
    left_out = undone[len(read.undone) :]
    assert read.frontier == (left_out[0].offset if left_out else note.frontier)


def test_a_hundred_keys_are_small() -> None:
    """However far apart they are, however long they have failed and how many wait behind them."""
    since = _FAILED.first_ms
    failed = NotedFailures(14, since, since + 120_000, since + 1_500_000)
    undone = tuple(Undone("key", 10_000 * n, bytes([n] * 6), failed) for n in range(100))
    text = write_note(CommitNote(0, 1_000_000, undone), "billing", _PLACE)
    assert len(text) <= 1_800
    read = read_note(text, "billing", _PLACE)
    assert read is not None
    assert 1_000_000 == read.frontier


@given(st.text() | st.none())
def test_what_others_write_there_is_none(text: str | None) -> None:
    """Tools and other clients have texts of their own: they are nothing to us, and no error."""
    assert read_note(text, "billing", _PLACE) is None


@given(st.integers(0, len(_TEXT) - 1), st.characters())
def test_a_damaged_one_is_none(at: int, character: str) -> None:
    """One character is enough."""
    text = _TEXT[:at] + character + _TEXT[at + 1 :]
    assert read_note(text, "billing", _PLACE) == (_NOTE if text == _TEXT else None)


@pytest.mark.parametrize(
    ("group", "place"),
    [("ledger", _PLACE), ("billing", ("orders", 4)), ("billing", ("refunds", 3))],
)
def test_one_that_was_copied_is_none(group: str, place: tuple[str, int]) -> None:
    """A group's offsets are copied to another, or a partition's to its neighbour."""
    assert read_note(_TEXT, group, place) is None


def test_one_of_a_newer_release_is_known_as_such() -> None:
    """It may say that messages above the offset are done."""
    with pytest.raises(NewerNoteError, match="2"):
        read_note(newer_note("billing", _PLACE), "billing", _PLACE)


def test_who_only_looks_has_a_note_of_this_offset_or_none() -> None:
    """A tool has moved the offset, a newer release has written the note, or there is none."""
    assert note_beside((812, _TEXT), "billing", _PLACE) == _NOTE
    for committed in ((813, _TEXT), (812, newer_note("billing", _PLACE)), (812, "")):
        assert note_beside(committed, "billing", _PLACE) is None


def test_messages_are_told_apart() -> None:
    """By key and time: an offset may be another message's, and a key may be empty or absent."""
    keys, times = (None, b"", b"null", b"key"), (None, 0, -1, 1)
    ours, others = Digests("billing"), Digests("ledger")
    digests = {ours.of_message(key, at_ms) for key in keys for at_ms in times}
    assert 16 == len(digests)
    assert digests.isdisjoint({others.of_message(key, at_ms) for key in keys for at_ms in times})
    assert 4 == len({ours.of_key(key) for key in keys})
    assert {ours.of_key(key) for key in keys}.isdisjoint(map(others.of_key, keys))


@pytest.mark.parametrize(
    ("offset", "lane", "is_done"),
    [
        (20, "aa" * 6, True),
        (33, "aa" * 6, False),
        (30, "aa" * 6, False),
        (29, "aa" * 6, True),
        (33, "bb" * 6, True),
        (33, UNKEYED, False),
        (31, UNKEYED, True),
        (35, f"{UNKEYED}@35", False),
        (36, f"{UNKEYED}@36", True),
        (40, "bb" * 6, False),
    ],
)
def test_what_is_done_of_a_lane(offset: int, lane: str, is_done: bool) -> None:
    """The bug: only the first of a key that is not done counted as not done, and those behind it as
    done. A message whose letter was about to leave, behind one that had failed at the commit
    before, was lost."""
    undone = (
        Undone("key", 30, b"\xaa" * 6),
        Undone("unkeyed", 32, b"any"),
        Undone("message", 35, b"one"),
    )
    assert is_done == CommitNote(20, 40, undone).has_done(offset, lane)
