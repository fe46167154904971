"""Entries add up to how the group stands, in whichever order they are read."""

import itertools
import random
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry import events as e
from linear_retry.journal.entry import Entry, encode, read_entry
from linear_retry.journal.group_state import EVENTS_KEPT, GroupStates, GroupView
from linear_retry.scope import Partition, Place, Scope
from tests.journal.journal_story import GROUP, Life, at, failed, opened

_P0, _P1, _P2 = (("orders", number) for number in range(3))


def _fold(entries: Iterable[Entry]) -> GroupStates:
    fold = GroupStates()
    for entry in entries:
        fold.take(entry)
    return fold


def _view(*entries: Entry) -> GroupView:
    return _fold(entries).view(GROUP)


def _states(view: GroupView) -> dict[str, str]:
    return {one.member: one.state for one in view.members}


def test_an_outage_from_its_beginning_to_its_end() -> None:
    """Open since its first failure, half-open from `retry_at` on, and gone once it has closed."""
    life, fold = Life("pod-1"), GroupStates()
    fold.take(life.says(1000, e.Assigned((_P0, _P1))))
    assert ("closed", (_P0, _P1)) == _member(fold)
    fold.take(life.says(2000, opened(_P0, 7, 7000)))
    fold.take(life.says(7100, failed(_P0, 7, 2, 12_000)))
    (circuit,) = fold.view(GROUP).circuits
    assert (Place("orders", 0, 7), 2, "again") == (circuit.held, circuit.failures, circuit.error)
    assert (2000, 12_000, 7100) == (circuit.since_ms, circuit.retry_at_ms, circuit.last_event_ms)
    assert ["open", "half-open"] == [circuit.state(now_ms) for now_ms in (11_999, 12_000)]
    assert "open" == _member(fold)[0]
    fold.take(life.says(12_100, e.CircuitClosed(Scope(), "recovered", 10.1)))
    view = fold.view(GROUP)
    assert ((), 1, 4) == (view.circuits, view.counts.recoveries, view.counts.entries)
    assert "closed" == _member(fold)[0]
    fold.take(life.says(13_000, e.Revoked((_P0, _P1))))
    assert ("idle", ()) == _member(fold)
    fold.take(life.says(13_001, e.Stopped(left_group=True)))
    assert ("stopped", ()) == _member(fold)


def _member(fold: GroupStates) -> tuple[str, tuple[Partition, ...]]:
    (member,) = fold.view(GROUP).members
    return member.state, member.partitions


def test_what_a_circuit_waits_for() -> None:
    """An attempt, its letter's sending, or both; its failures stay known while the letter waits."""
    life, held = Life("pod-1"), (Scope(), *_P0, 7)
    written = [
        life.says(1, opened(_P0, 7, 5000)),
        life.says(2, e.DeadLetterFailed(*held, "orders.dlq", "no such topic", 3, 2.0, at(9000))),
        life.says(3, e.LimitReached(*held, "bad", 4, 5.0, at(9000), 10)),
        life.says(4, e.RetriedNow(*held, 4, 3.0)),
    ]
    circuits = [_view(*written[:count]).circuits[0] for count in range(1, 5)]
    assert ["failed", "letter", "limit", "limit"] == [one.waits_for for one in circuits]
    assert [1, 1, 4, 4] == [one.failures for one in circuits]
    assert [0, 3, 0, 0] == [one.sends for one in circuits]
    assert "bad" == circuits[3].error
    assert ("half-open", 4) == (circuits[3].state(4), circuits[3].due_ms)


def test_a_blocked_key_has_no_time() -> None:
    """It is open until an operator retries it, and again if that fails."""
    life, held = Life("pod-1"), (Scope(*_P0, "5a1b7acd8a3f"), *_P0, 7)
    written = [
        life.says(1, e.KeyBlocked(*held, "bad", 1)),
        life.says(50, e.RetriedNow(*held, 1, 0.0)),
        life.says(60, e.KeyBlocked(*held, "worse", 2)),
    ]
    blocked, retried, again = (_view(*written[:n]).circuits[0] for n in (1, 2, 3))
    for one, failures, error in ((blocked, 1, "bad"), (again, 2, "worse")):
        assert (1, None, "operator") == (one.since_ms, one.due_ms, one.waits_for)
        assert ("open", failures, error) == (one.state(10**15), one.failures, one.error)
    assert ("half-open", 50) == (retried.state(51), retried.due_ms)


def test_a_pause_is_listed_beside_what_is_held() -> None:
    """Until it ends; with who has paused it and why, and since when, though it is renewed."""
    life, held = Life("pod-1"), (Scope(), *_P0, 7)
    written = [
        life.says(1, e.CircuitOpened(*held, "bad", 1, 5.0, at(5000))),
        life.says(2, e.PausedByHand(Scope(), "ops@desk", "it moves", at(9000))),
        life.says(3, e.PausedByHand(Scope(), "ann", "it still moves", at(9500))),
        life.says(4, e.PauseEnded(Scope(), True, 2.0)),
    ]
    for count, by, until_ms in ((2, "ops@desk: it moves", 9000), (3, "ann: it still moves", 9500)):
        circuit, pause = _view(*written[:count]).circuits
        assert ("pause", None, 2, until_ms) == (
            *(pause.waits_for, pause.held, pause.since_ms, pause.due_ms),
        )
        assert f"paused by {by}" == pause.error
        assert "failed" == circuit.waits_for
    assert ["failed"] == [one.waits_for for one in _view(*written).circuits]


def test_a_member_that_holds_for_its_group() -> None:
    """Beside its own circuit, and beside a pause by an operator, which ends by itself."""
    life, held = Life("pod-1"), (Scope(), *_P0, 7)
    written = [
        life.says(1, e.CircuitOpened(*held, "bad", 1, 5.0, at(5000))),
        life.says(2, e.HeldByGroup("pod-2", "worse", at(9000))),
        life.says(3, e.PausedByHand(Scope(), "ann", "it moves", at(9500))),
        life.says(4, e.PauseEnded(Scope(), True, 2.0)),
        life.says(5, e.HeldByGroup("pod-3", "worst", at(9900))),
        life.says(6, e.GroupHoldEnded(True, 3.0)),
    ]
    kinds = [
        sorted(one.waits_for for one in _view(*written[:count]).circuits) for count in range(1, 7)
    ]
    both = ["failed", "group"]
    assert [["failed"], both, [*both, "pause"], both, both, ["failed"]] == kinds
    (hold,) = (one for one in _view(*written[:5]).circuits if one.waits_for == "group")
    assert ("pod-3 attempts for the group: worst", 2, 9900) == (
        *(hold.error, hold.since_ms, hold.due_ms),
    )


def test_what_waits_behind_a_held_message() -> None:
    """As last reported; nothing once its circuit has closed, though the report comes twice."""
    life, held = Life("pod-1"), (Scope(*_P0, "5a1b7acd8a3f"), *_P0, 7)
    written = [
        life.says(1, e.CircuitOpened(*held, "bad", 1, 5.0, at(5000))),
        life.says(2, e.WaitingBehind(*held, 3)),
        life.says(3, e.ProbeFailed(*held, "bad", 2, 5.0, at(9000))),
        life.says(4, e.WaitingBehind(*held, 12)),
        life.says(5, e.CircuitClosed(held[0], "recovered", 4.0)),
    ]
    counts = [_view(*written[:n]).circuits[0].behind for n in range(1, 5)]
    assert [0, 3, 3, 12] == counts
    assert () == _view(*written, written[3]).circuits


def test_messages_that_left_for_retry_topics_are_counted() -> None:
    """Each time, with when the last of them is due, in whatever order the entries come."""
    life = Life("pod-1")
    written = [
        life.says(n, e.SentToRetry(*_P0, n, "orders.retry.5m", "id", 1, 1, at(due), "down", 2))
        for n, due in enumerate([5000, 9000, 7000])
    ]
    for entries in (written, written[::-1]):
        counts = _view(*entries).counts
        assert (3, 9000, 0) == (counts.retries, counts.retries_until_ms, counts.letters)


@pytest.mark.parametrize("remaining_s", [1e308, -1e308])
def test_a_garbled_wait_is_bounded(remaining_s: float) -> None:
    """The bug: -1e308 s are minus infinity in milliseconds; that ended who read the journal."""
    life = Life("pod-1")
    garbled = e.RetriedNow(Scope(), *_P0, 7, 1, remaining_s)
    assert 1 == len(_view(life.says(1, opened(_P0, 7, 5000)), life.says(2, garbled)).circuits)


def test_a_wait_that_was_ended_without_a_message() -> None:
    """Its message went to another member, and an operator ended the wait: its probe is due."""
    life = Life("pod-1")
    written = [
        life.says(1, e.Assigned((_P0, _P1))),
        life.says(2, opened(_P0, 7, 5000)),
        life.says(3, e.Revoked((_P0,))),
        life.says(4, e.WaitEnded(Scope(), 4996.0)),
    ]
    (circuit,) = _view(*written).circuits
    assert (None, "half-open", 4) == (circuit.held, circuit.state(4), circuit.due_ms)
    assert () == _view(written[0], written[3]).circuits


def test_a_message_of_which_only_the_letter_failed() -> None:
    """Nobody has said how often the handler failed: that is not known, and not 0."""
    failed = e.DeadLetterFailed(Scope(), *_P0, 7, "orders.dlq", "away", 1, 1.0, at(9))
    (circuit,) = _view(Life("pod-1").says(1, failed)).circuits
    assert (None, 1) == (circuit.failures, circuit.sends)


def test_a_killed_member_is_silent_once_others_have_what_it_had() -> None:
    """No word of its own: until then its circuit is open, as it said; never is it called dead."""
    killed, other = Life("killed"), Life("other")
    written = [
        killed.says(1000, e.Assigned((_P0, _P1))),
        killed.says(2000, opened(_P0, 7, 7000)),
        other.says(1000, e.Assigned((_P2,))),
    ]
    before = _view(*written)
    assert ({"killed": "open", "other": "closed"}, 1) == (_states(before), len(before.circuits))
    half = _view(*written, other.says(46_000, e.Assigned((_P0,))))
    assert [None] == [circuit.held for circuit in half.circuits]
    assert {_P0: "other"} == half.members[0].taken
    after = _view(*written, other.says(47_000, e.Assigned((_P0, _P1))))
    assert ({"killed": "silent", "other": "closed"}, ()) == (_states(after), after.circuits)
    assert 2000 == after.members[0].last_event_ms
    assert (_P0, _P1, _P2) == after.members[1].partitions


def test_who_took_it_need_not_keep_it() -> None:
    """What went to another, and on from there, does not come back to one that said nothing."""
    killed, other = Life("killed"), Life("other")
    view = _view(
        killed.says(1000, e.Assigned((_P0,))),
        other.says(46_000, e.Assigned((_P0,))),
        other.says(47_000, e.Revoked((_P0,))),
        other.says(47_001, e.Stopped(left_group=True)),
    )
    assert {"killed": "silent", "other": "stopped"} == _states(view)


def test_a_member_that_has_it_again_is_not_silent() -> None:
    """Its own word is the newer one."""
    back, other = Life("back"), Life("other")
    written = [back.says(1000, e.Assigned((_P0,))), other.says(46_000, e.Assigned((_P0,)))]
    written.append(back.says(50_000, e.Lost((_P0,), "session timeout")))
    assert {"back": "idle", "other": "closed"} == _states(_view(*written))
    written.append(other.says(51_000, e.Revoked((_P0,))))
    written.append(back.says(51_001, e.Assigned((_P0,))))
    assert {"back": "closed", "other": "idle"} == _states(_view(*written))


def test_a_static_member_is_its_newest_life() -> None:
    """The one that ended without a word is not seen beside the one that took its name."""
    old, new = Life("pod-1", "a"), Life("pod-1", "b")
    written = [
        old.says(1000, e.Assigned((_P0,))),
        old.says(2000, opened(_P0, 7, 9000)),
        new.says(3000, e.Assigned((_P0,))),
    ]
    for order in itertools.permutations(written):
        view = _view(*order)
        (member,) = view.members
        assert ("b", 2, "closed") == (member.instance, member.lives, member.state)
        assert () == view.circuits


def test_a_static_member_that_stopped_keeps_its_partitions() -> None:
    """They wait for its return: it is told, and its circuit is not open any more."""
    life = Life("pod-1")
    view = _view(
        life.says(1, e.Assigned((_P0,))),
        life.says(2, opened(_P0, 7, 9000)),
        life.says(3, e.Stopped(left_group=False)),
    )
    (member,) = view.members
    assert ("stopped", False, ()) == (member.state, member.left_group, view.circuits)


def test_a_held_message_goes_with_its_partition() -> None:
    """The circuit stays over what else it stops, also where the partition comes back at once."""
    life = Life("pod-1")
    written = [life.says(1, e.Assigned((_P0, _P1))), life.says(2, opened(_P0, 7, 9000))]
    written.append(life.says(3, e.Revoked((_P0,))))
    assert [None] == [one.held for one in _view(*written).circuits]
    written.append(life.says(4, e.Assigned((_P0,))))
    assert [None] == [one.held for one in _view(*written).circuits]
    written.append(life.says(5, e.Revoked((_P0, _P1))))
    assert () == _view(*written).circuits


def test_narrow_scopes_are_circuits_of_their_own() -> None:
    """One closes, the other stays."""
    life = Life("pod-1")
    view = _view(
        life.says(1, e.Assigned((_P0, _P1))),
        life.says(2, opened(_P0, 7, 9000, Scope(*_P0))),
        life.says(3, opened(_P1, 8, 9000, Scope(*_P1))),
        life.says(4, e.CircuitClosed(Scope(*_P0), "dead-lettered", 1.0)),
    )
    assert [Scope(*_P1)] == [one.scope for one in view.circuits]
    assert 0 == view.counts.recoveries


def test_what_is_there_twice_counts_once() -> None:
    """A producer repeats what was not acknowledged."""
    life, fold = Life("pod-1"), GroupStates()
    written = [life.says(at_ms, e.LeakDropped(*_P0, at_ms)) for at_ms in (1, 2, 3)]
    order = [written[0], written[2], written[0], written[1], written[2], written[1]]
    assert [True, True, False, True, False, False] == [fold.take(entry) for entry in order]
    view = fold.view(GROUP)
    assert (3, 0, tuple(written)) == (view.counts.entries, view.missing, view.last_events)


def test_an_entry_that_comes_late_changes_nothing() -> None:
    """A topic got more partitions: what was said of a circuit lies in two, and comes as it may."""
    life = Life("pod-1")
    written = [
        life.says(1, e.Assigned((_P0,))),
        life.says(2, opened(_P0, 7, 9000)),
        life.says(3, failed(_P0, 7, 2, 9000)),
        life.says(4, e.CircuitClosed(Scope(), "recovered", 1.0)),
    ]
    for count in (3, 4):
        circuits = [_view(*order).circuits for order in itertools.permutations(written[:count])]
        assert {4 - count} == {len(some) for some in circuits}
        assert {2} >= {one.failures for some in circuits for one in some}


def test_what_is_missing_is_reported() -> None:
    """Numbers between the first and the last that were not seen; not what was before the first."""
    life = Life("pod-1")
    written = [life.says(at_ms, e.LeakDropped(*_P0, at_ms)) for at_ms in range(10)]
    assert 0 == _view(*written[3:]).missing
    seen = [written[3], written[6], written[9]]
    for order in itertools.permutations(seen):
        view = _view(*order)
        assert (4, 4) == (view.missing, view.members[0].missing)


def test_records_that_are_no_entries_are_counted() -> None:
    """Those of a later release among them: the reason says so."""
    fold = GroupStates()
    entry = Life("pod-1").says(1, e.Stopped(left_group=True))
    later = encode(entry).replace(b'"v":1', b'"v":2'), encode(entry).replace(b"Stopped", b"Slept")
    assert [False] * 4 == [fold.take(read_entry(value)) for value in (None, b"{}", *later)]
    assert (4, ()) == (fold.unreadable, fold.groups)
    assert "Slept" in fold.trouble


def test_groups_are_apart() -> None:
    """Each has its own members, and one that said nothing has none."""
    entry = Life("pod-1").says(1, e.Assigned((_P0,)))
    fold = _fold([entry, replace(entry, group="parcels", instance="x", member="pod-2")])
    assert (GROUP, "parcels") == fold.groups
    assert ["pod-2"] == [one.member for one in fold.view("parcels").members]
    assert () == fold.view("nobody").members


def test_the_last_events_are_bounded() -> None:
    """However many there were, the latest are kept, by time."""
    life = Life("pod-1")
    written = [life.says(at_ms, e.LeakDropped(*_P0, 1)) for at_ms in range(5 * EVENTS_KEPT)]
    for entries in (written, written[::-1]):
        assert tuple(written[-EVENTS_KEPT:]) == _view(*entries).last_events


@st.composite
def _histories(draw: st.DrawFn) -> list[Entry]:
    """What some lives may have said, by number; any of them may end at any time."""
    partitions = st.lists(st.sampled_from([_P0, _P1, _P2]), unique=True).map(tuple)
    scopes = st.sampled_from([Scope(), Scope("orders"), Scope(*_P0), Scope(*_P1)])
    place, times = st.sampled_from([_P0, _P1, _P2]), st.integers(0, 50)
    occurring: st.SearchStrategy[e.Event] = st.one_of(
        partitions.map(e.Assigned),
        partitions.map(e.Revoked),
        partitions.map(lambda some: e.Lost(some, "why")),
        st.builds(opened, place, times, times, scopes),
        st.builds(failed, place, times, times, times, scopes),
        st.builds(e.CircuitClosed, scopes, st.sampled_from(["recovered", "dropped"]), st.just(1.0)),
        st.just(e.Stopped(left_group=True)),
    )
    lives = [Life("a"), Life("b"), Life("static", "x"), Life("static", "y")]
    talk = st.lists(st.tuples(st.sampled_from(lives), times, occurring), max_size=30)
    return [life.says(at_ms, event) for life, at_ms, event in draw(talk)]


def _read(entries: list[Entry], rng: random.Random) -> list[Entry]:
    """As partitions give them: those of one key in order, and some of them twice."""
    lanes: dict[bytes, list[Entry]] = {}
    for entry in entries:
        lanes.setdefault(entry.key + entry.instance.encode(), []).append(entry)
    read: list[Entry] = []
    while lanes:
        key = rng.choice(sorted(lanes))
        read.append(lanes[key].pop(0))
        if rng.random() < 0.3:
            read.append(rng.choice(read))
        if not lanes[key]:
            del lanes[key]
    return read


@given(_histories(), st.randoms(use_true_random=False))
def test_any_order_of_the_partitions_gives_the_same_view(
    entries: list[Entry], rng: random.Random
) -> None:
    """And so does reading some of it twice."""
    assert _view(*entries) == _view(*_read(entries, rng))


@given(_histories(), st.randoms(use_true_random=False))
def test_any_part_of_it_is_a_whole_picture(entries: list[Entry], rng: random.Random) -> None:
    """Whatever is missing: a circuit is its member's, over what that has, and all is counted."""
    seen = [entry for entry in entries if rng.random() < 0.7]
    view = _view(*seen)
    by_name = {one.member: one for one in view.members}
    assert len(by_name) == len(view.members)
    for circuit in view.circuits:
        member = by_name[circuit.member]
        assert ("open", circuit.instance) == (member.state, member.instance)
        assert any(map(circuit.scope.covers, member.partitions))
    for member in view.members:
        assert set() == set(member.partitions) & set(member.taken)
        assert member.since_ms <= member.last_event_ms
        assert (member.state == "open") == any(view.of(member.member))
    assert len(seen) == view.counts.entries
    unseen = {entry.event_id for entry in entries} - {entry.event_id for entry in seen}
    assert view.missing <= len(unseen)


@pytest.mark.parametrize("now_ms", [0, 2**62])
def test_any_time_will_do(now_ms: int) -> None:
    """Clocks of others may be anywhere."""
    (circuit,) = _view(Life("a").says(1, opened(_P0, 1, 9000))).circuits
    assert circuit.state(now_ms) in ("open", "half-open")
