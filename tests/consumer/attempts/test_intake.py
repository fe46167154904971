"""What an owner before has done behind the committed offset is passed over, in every scope."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from linear_retry.errors import ConfigurationError
from linear_retry.events import CircuitOpened, DeadLettered
from linear_retry.records.commit_note import (
    CommitNote,
    Digests,
    NotedFailures,
    Undone,
    read_note,
    write_note,
)
from linear_retry.scope import ScopeKind
from linear_retry.testing import AttemptStarted
from tests.consumer.group import GROUP, TOPIC, FakeGroup, Member

_P0 = (TOPIC, 0)
_DIGESTS = Digests(GROUP)
_HOUR_S = 3_600.0


def _key(name: str) -> bytes | None:
    return None if name == "-" else name.encode()


def _place(offset: int, name: str, failures: NotedFailures | None = None) -> Undone:
    """A key of one letter waits from there on; `-`: messages without a key."""
    kind = "unkeyed" if name == "-" else "key"
    return Undone(kind, offset, _DIGESTS.of_key(_key(name)), failures)  # type: ignore[arg-type]


def _noted(keys: str, note: CommitNote, **options: Any) -> FakeGroup:
    """A group whose last owner has left this note; the messages have these keys.

    Compaction has removed those with a blank.
    """
    group, gap = FakeGroup(partitions=1, **({"strategy": [1, _HOUR_S]} | options)), 0
    for name in keys:
        if name == " ":
            gap += 1
        else:
            group.visible[_P0].append(group.fake.append(*_P0, b"value", _key(name), gap=gap))
            gap = 0
    group.fake.group(GROUP)[_P0] = note.base
    group.fake.notes(GROUP)[_P0] = write_note(note, GROUP, _P0)
    return group


def _take(group: FakeGroup) -> Member:
    member = group.join()
    group.share([0])
    return member


def _attempted(group: FakeGroup) -> list[int]:
    entries = group.witness.entries
    return [one.place.offset for one in entries if isinstance(one, AttemptStarted)]


@pytest.mark.parametrize("remember_failures", [True, False])
@pytest.mark.parametrize("scope", ["consumer", "topic", "partition"])
def test_what_is_done_is_passed_over(scope: ScopeKind, remember_failures: bool) -> None:
    """A release that handles keys side by side was rolled back to this one: nothing of what it has
    done is done again, and nothing of what it has not is lost."""
    note = CommitNote(1, 8, (_place(1, "a"), _place(4, "-")))
    group = _noted("babb-ba-bac", note, scope=scope, remember_failures=remember_failures)
    _take(group)
    group.finish()
    assert [1, 4, 6, 7, 8, 9, 10] == _attempted(group)
    assert ({_P0: 11}, {}) == (group.fake.group(GROUP), group.fake.notes(GROUP))


@pytest.mark.parametrize("end", [FakeGroup.leave, FakeGroup.crash])
def test_what_is_not_reached_is_written_again(end: Callable[[FakeGroup, Member], None]) -> None:
    """The owner stops on its way through the note: the next one goes on with it."""
    group = _noted("abcabcabc", CommitNote(0, 8, (_place(0, "a"), _place(4, "b"))))
    calls: list[float] = []

    def fail_the_second(now: float) -> None:
        calls.append(now)
        group.dependency.down = len(calls) == 2

    group.dependency.advance = fail_the_second
    first = _take(group)
    while not list(first.circuits):
        group.turn()
    assert [0, 3] == _attempted(group)
    group.fake.clock.advance(2)
    end(group, first)
    group.dependency.advance = lambda now: None
    group.dependency.down = False
    _take(group)
    group.finish(within_s=2 * _HOUR_S)
    assert [0, 3, 3, 4, 6, 7, 8] == _attempted(group)


def test_each_waits_for_its_own_retry_at() -> None:
    """Two keys have failed: the strategy of each goes on, and those between are passed over."""
    now_ms = FakeGroup().fake.clock.utc_ms()
    due = {0: now_ms + 100_000, 3: now_ms + 900_000}
    undone = tuple(
        _place(offset, "a" if offset == 0 else "b", NotedFailures(2, now_ms, now_ms, at_ms))
        for offset, at_ms in due.items()
    )
    group = _noted("abcb", CommitNote(0, 3, undone), strategy=[1, _HOUR_S, 60, 60])
    member = _take(group)
    group.finish(within_s=2_000)
    opened = [event for event in member.events if isinstance(event, CircuitOpened)]
    assert [(0, 2), (3, 2)] == [(event.offset, event.failures) for event in opened]
    assert [0, 3] == _attempted(group)
    began = [one for one in group.witness.entries if isinstance(one, AttemptStarted)]
    for one in began:
        assert one.at_s * 1_000 >= due[one.place.offset] - now_ms, "attempted early"


def test_a_note_about_another_log_is_put_aside(caplog: pytest.LogCaptureFixture) -> None:
    """The topic was made again, and a tool has kept the offset and its text: all is handled from
    that offset on, also what was passed over on the way to the first sign of it."""
    note = CommitNote(0, 9, (_place(0, "a"), _place(5, "b")))
    group = _noted("acccccccc", note)
    _take(group)
    group.finish()
    assert {*range(9)} == {*_attempted(group)}
    (said,) = [text for text in caplog.messages if "about other messages" in text]
    assert "at 5 shows" in said


def test_an_offset_that_was_moved(caplog: pytest.LogCaptureFixture) -> None:
    """A tool wrote the old text beside another offset: it says how many are handled again."""
    group = _noted("abcabc", CommitNote(0, 5, (_place(0, "a"),)))
    group.fake.group(GROUP)[_P0] = 2
    _take(group)
    group.finish()
    assert [2, 3, 4, 5] == _attempted(group)
    assert [text for text in caplog.messages if "from 2 to 5 is handled again" in text]


def test_a_note_by_other_keys_is_refused() -> None:
    """What it calls done is that of other keys: passing it over would lose messages."""
    note = replace(CommitNote(0, 5, (_place(0, "a"),)), key_id="tenant-2")
    group = _noted("abcabc", note)
    _take(group)
    with pytest.raises(ConfigurationError, match=r"'tenant-2'.* 5 messages.*on_unreadable_note"):
        group.turn(5)


def test_a_note_that_is_refused_stays() -> None:
    """Neither the next use nor the end of the consumer clears it: whose it is goes on with it."""
    note = replace(CommitNote(0, 5, (_place(0, "a"),)), key_id="tenant-2")
    group = _noted("abcabc", note)
    member = _take(group)
    before = dict(group.fake.notes(GROUP))
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"on_unreadable_note"):
            group.turn(5)
    group.leave(member)
    assert before == group.fake.notes(GROUP)
    assert [] == _attempted(group)


def test_or_what_it_says_is_handled_again() -> None:
    """If the user accepts that."""
    note = replace(CommitNote(0, 5, (_place(0, "a"),)), key_id="tenant-2")
    group = _noted("abcabc", note, on_unreadable_note="handle-again")
    _take(group)
    group.finish()
    assert [*range(6)] == _attempted(group)


def test_a_message_that_compaction_has_removed_is_no_doubt() -> None:
    """Its key goes on with the next one."""
    group = _noted(" bcabc", CommitNote(0, 5, (_place(0, "a"), _place(1, "b"))))
    _take(group)
    group.finish()
    assert [1, 3, 4, 5] == _attempted(group)


def test_a_transaction_carries_the_note() -> None:
    """The letter's offset goes into it, and what is behind that stays noted."""
    note = CommitNote(0, 6, (_place(0, "a"), _place(4, "b")))
    group = _noted("abcabc", note, transactional=True, strategy=[_HOUR_S])
    group.dependency.refuses = {(0, 0)}
    member = _take(group)
    while not [event for event in member.events if isinstance(event, DeadLettered)]:
        group.turn()
    text = group.fake.notes(GROUP)[_P0]
    left = read_note(text, GROUP, _P0)
    assert left is not None
    assert (1, 6) == (left.base, left.frontier)
    assert _place(4, "b") in left.undone
    group.finish()
    assert [0, 3, 4] == _attempted(group)


def test_a_broker_that_takes_shorter_notes_only() -> None:
    """The note is shortened until it fits: what it leaves out is handled again."""
    keys = "".join(chr(ord("a") + n) for n in range(20)) + "x"
    undone = tuple(_place(n, keys[n]) for n in range(20))
    group = _noted(keys, CommitNote(0, 21, undone), strategy=[_HOUR_S] * 3)
    group.fake.faults.longest_note = 150
    group.dependency.refuses = {(0, 1)}
    member = _take(group)
    while not [event for event in member.events if isinstance(event, DeadLettered)]:
        group.turn()
    group.crash(member)
    group.fake.clock.advance(5)
    _take(group)
    group.finish(within_s=4 * _HOUR_S)
    assert {*range(20)} <= {*_attempted(group)}
    assert all(len(text) <= 150 for text in group.fake.notes(GROUP).values())


def test_a_probe_may_be_done_already() -> None:
    """A circuit without a message takes the first one that comes: here it is one to pass over."""
    group = _noted("abcabc", CommitNote(0, 0), scope="consumer", strategy=[1, 1, 1, 1])
    group.dependency.down = True
    member = _take(group)
    while not list(member.circuits):
        group.turn()
    group.fake.assign(member.consumer, [])
    group.turn()
    undone = (_place(0, "a"), _place(5, "c"))
    group.fake.group(GROUP)[_P0] = 0
    group.fake.notes(GROUP)[_P0] = write_note(CommitNote(0, 6, undone), GROUP, _P0)
    group.dependency.down = False
    group.fake.assign(member.consumer, [_P0])
    group.fake.clock.advance(5)
    group.finish()
    assert [0, 3, 5] == list(dict.fromkeys(_attempted(group)))
