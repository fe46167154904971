"""What a note counts as done was done, whoever has written it and whatever became of the log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from linear_retry.records.commit_note import (
    CommitNote,
    Digests,
    NotedFailures,
    Undone,
    read_note,
    write_note,
)
from linear_retry.retry.noted_messages import NotedMessages

_GROUP, _PLACE = "billing", ("orders", 0)
_DIGESTS = Digests(_GROUP)
_FAILED = NotedFailures(3, 1_000, 2_000, 9_000)


class _OneBit(Digests):
    """Half of all keys have the same digest."""

    def _of(self, content: bytes) -> bytes:
        return bytes([super()._of(content)[0] & 1] * 6)


@dataclass
class _Log:
    """A partition: the key of each message, and the offsets that are done."""

    keys: Sequence[bytes | None]
    digests: Digests = _DIGESTS
    done: set[int] = field(default_factory=set)

    def time_of(self, offset: int) -> int:
        return 1_000 * offset

    def note(self, base: int) -> CommitNote:
        """What an owner writes who handles each key in order, and keys in any order."""
        frontier = max(self.done, default=base - 1) + 1
        first: dict[bytes | None, int] = {}
        for offset in range(base, max(frontier, base)):
            if offset not in self.done:
                first.setdefault(self.keys[offset], offset)
        undone = tuple(
            Undone("unkeyed" if key is None else "key", offset, self.digests.of_key(key), _FAILED)
            for key, offset in first.items()
        )
        return CommitNote(base, max(frontier, base), undone)

    @property
    def base(self) -> int:
        return next((n for n in range(len(self.keys)) if n not in self.done), len(self.keys))


_keys = st.lists(st.sampled_from((None, b"", b"a", b"b", b"c", b"d")), min_size=1, max_size=30)


@st.composite
def _logs(draw: Any, digests: Digests = _DIGESTS) -> _Log:
    log = _Log(draw(_keys), digests)
    by_key: dict[bytes | None, list[int]] = {}
    for offset, key in enumerate(log.keys):
        by_key.setdefault(key, []).append(offset)
    for offsets in by_key.values():
        log.done |= set(offsets[: draw(st.integers(0, len(offsets)))])
    return log


def _judged(log: _Log, noted: NotedMessages, offset: int) -> str:
    key = log.keys[offset]
    return noted.judge(offset, key, log.time_of(offset), None, order=key)


@given(_logs())
def test_it_knows_exactly_what_is_done(log: _Log) -> None:
    """A clean stop repeats nothing, and loses nothing."""
    noted = NotedMessages(log.note(log.base), _DIGESTS)
    for offset in range(log.base, len(log.keys)):
        assert ("done" if offset in log.done else "undone") == _judged(log, noted, offset)


@settings(max_examples=300)
@given(st.data(), st.booleans())
def test_what_is_passed_over_was_done(data: st.DataObject, one_bit: bool) -> None:
    """Over owners that take each message in turn, stop anywhere, commit or crash, with notes too
    long for the broker, messages that compaction has removed, and keys with one digest."""
    digests = _OneBit(_GROUP) if one_bit else _DIGESTS
    log = data.draw(_logs(digests))
    most = data.draw(st.sampled_from((0, 60, 100, 200, 4_095)))
    base, text = log.base, write_note(log.note(log.base), _GROUP, _PLACE, most)
    there = [n for n in range(len(log.keys)) if data.draw(st.integers(0, 4))]
    for _ in range(data.draw(st.integers(1, 4))):
        note = read_note(text, _GROUP, _PLACE)
        noted = None if note is None else NotedMessages(note, digests)
        for offset in [n for n in there if n >= base]:
            if data.draw(st.integers(0, 9)) == 0:
                break
            if noted is None or _judged(log, noted, offset) == "undone":
                log.done.add(offset)
            assert noted is None or _judged(log, noted, offset) != "doubt"
            assert offset in log.done
            if data.draw(st.booleans()):
                base = offset + 1
                left = None if noted is None else noted.left(base)
                text = "" if left is None else write_note(left, _GROUP, _PLACE, most)


@given(_logs(), st.integers(0, 30))
def test_another_log_is_doubted_or_handled(log: _Log, at: int) -> None:
    """The message at a place is not the one of then: the note is about another log."""
    note = log.note(log.base)
    noted = NotedMessages(note, _DIGESTS)
    place = next((one.offset for one in note.undone if one.offset >= at), None)
    if place is not None:
        assert "doubt" == noted.judge(place, b"another", 1, None, order=b"another")


def test_a_lower_place_of_one_digest_counts() -> None:
    """The other way round, what is between the two would be passed over."""
    digests = _OneBit(_GROUP)
    twins = [key for key in (b"a", b"b", b"c", b"d", b"e") if digests.of_key(key) == bytes(6)]
    low, high = (Undone("key", at, bytes(6)) for at in (2, 8))
    noted = NotedMessages(CommitNote(2, 20, (low, high)), digests)
    assert "undone" == noted.judge(5, twins[0], 1, None, order=twins[0])


def test_what_came_after_the_log_was_cut_is_not_done() -> None:
    """Its leader's epoch is a later one: from there on nothing is passed over."""
    place = Undone("key", 2, _DIGESTS.of_key(b"a"))
    noted = NotedMessages(CommitNote(2, 20, (place,), leader_epoch=4), _DIGESTS)
    assert ["done", "undone", "undone"] == [
        noted.judge(offset, b"b", 1, epoch, order=b"b")
        for offset, epoch in ((3, 4), (7, 5), (8, 4))
    ]


def test_what_is_below_the_base_is_not_known() -> None:
    """A position of the user's own store may be lower than the group's."""
    noted = NotedMessages(CommitNote(10, 20), _DIGESTS)
    assert ("undone", "done") == tuple(
        noted.judge(offset, b"a", 1, None, order=b"a") for offset in (9, 10)
    )


def test_failures_belong_to_their_message() -> None:
    """They are carried until the message is there, and given up when its owner counts."""
    place = Undone("key", 7, _DIGESTS.of_key(b"a"), _FAILED)
    noted = NotedMessages(CommitNote(2, 5, (place,)), _DIGESTS)
    assert (None, _FAILED) == (noted.failures_at(2), noted.failures_at(7))
    left = noted.left(5)
    assert left is not None
    assert (5, (place,)) == (left.frontier, left.undone)
    noted.forget_failures(7)
    assert (None, None) == (noted.failures_at(7), noted.left(6))


def test_a_key_whose_next_message_is_unknown_begins_at_the_offset() -> None:
    """So no message there is compared with it, nor handled again if it is another key's."""
    place = Undone("key", 2, _DIGESTS.of_key(b"a"), _FAILED)
    left = NotedMessages(CommitNote(2, 9, (place,)), _DIGESTS).left(4)
    assert left is not None
    assert (replace(place, offset=4, failures=None, is_there=False),) == left.undone
    noted = NotedMessages(left, _DIGESTS)
    found: Mapping[bytes, str] = {
        key: noted.judge(5, key, 1, None, order=key) for key in (b"a", b"b")
    }
    assert {b"a": "undone", b"b": "done"} == found
    assert "done" == noted.judge(4, b"b", 1, None, order=b"b")
