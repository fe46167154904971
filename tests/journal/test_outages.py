"""Outages in a journal are those that Spark finds in it."""

import random
from collections.abc import Iterable
from typing import get_args

from linear_retry import events as e
from linear_retry.events import CloseOutcome
from linear_retry.journal.entry import Entry
from linear_retry.journal.episodes import Episode, Episodes
from linear_retry.journal.group_state import GroupStates
from linear_retry.journal.outages import Outage, group_episodes
from linear_retry.scope import Scope
from tests.journal.journal_story import ERROR, GROUP, Life, failed, opened
from tests.spark.history.expected_episodes import expected_episodes

_P0, _P1 = ("orders", 0), ("orders", 1)


def _outages(entries: Iterable[Entry], *, since_ms: int = 0) -> list[Outage]:
    states, episodes = GroupStates(), Episodes()
    for entry in entries:
        if states.take(entry):
            episodes.take(entry)
    open_now = {(GROUP, each.instance, each.scope) for each in states.view(GROUP).circuits}
    return group_episodes(episodes.since(since_ms, open_now))


def test_what_two_members_saw_is_one_outage() -> None:
    """With what it cost: attempts, messages, a letter; from its first failure to its last entry."""
    one, two = Life("pod-1"), Life("pod-2")
    entries = [
        one.says(1000, opened(_P0, 7, 6000)),
        two.says(1500, opened(_P1, 9, 6500)),
        one.says(6100, failed(_P0, 7, 2, 9000)),
        one.says(9100, e.CircuitClosed(Scope(), "recovered", 8.1)),
        two.says(9600, e.CircuitClosed(Scope(), "dead-lettered", 8.1)),
        one.says(20_000, opened(_P0, 8, 26_000)),
    ]
    first, second = _outages(entries)
    assert (1000, 9600, ("consumer",)) == (first.began_ms, first.ended_ms, first.scopes)
    assert (2, 2, 3, ERROR) == (first.members, first.messages, first.attempts, first.error)
    assert (1, 1, 0, False) == (first.recovered, first.given_up, first.left_line, first.is_open)
    assert (20_000, True) == (second.began_ms, second.is_open)


def test_an_outage_goes_on_while_members_wait_and_while_they_restart() -> None:
    """Up to the attempt that the last entry names; and to the next failure of the same message."""
    one, two, three = Life("pod-1"), Life("pod-2"), Life("pod-3")
    waiting = [
        one.says(1000, opened(_P0, 7, 301_000)),
        two.says(90_000, opened(_P1, 9, 390_000)),
        one.says(301_050, failed(_P0, 7, 2, 601_050)),
        three.says(595_000, opened(_P1, 10, 895_000)),
    ]
    assert [True] == [each.is_open for each in _outages(waiting)]
    early = [*waiting[:2], two.says(95_000, e.RetriedNow(Scope(), *_P1, 9, 1, 295.0))]
    early += [one.says(96_000, e.RetriedNow(Scope(), *_P0, 7, 1, 205.0)), waiting[3]]
    assert [2, 1] == [len(each.episodes) for each in _outages(early)]
    stopped = [one.says(1000, opened(_P0, 7, 2000)), one.says(1500, e.Stopped(True))]
    next_ones = [two.says(60_000, opened(_P0, offset, 61_000)) for offset in (7, 8)]
    assert [1, 2] == [len(_outages([*stopped, each])) for each in next_ones]


def test_what_was_left_open_is_open_no_more_once_its_member_has_stopped() -> None:
    """Nor where another has its partition: only what the journal's state says is open."""
    one, two = Life("pod-1"), Life("pod-2")
    held = [one.says(900, e.Assigned((_P0,))), one.says(1000, opened(_P0, 7, 6000))]
    assert [True] == [each.is_open for each in _outages(held)]
    taken = [*held, two.says(2000, e.Assigned((_P0,)))]
    assert [False] == [each.is_open for each in _outages(taken)]
    assert [False] == [each.is_open for each in _outages([*held, one.says(2000, e.Stopped(True))])]


def test_an_outage_that_ended_before_is_left_out_and_one_that_is_open_is_not() -> None:
    """However long ago it began."""
    one, two = Life("pod-1"), Life("pod-2")
    entries = [
        one.says(1000, opened(_P0, 7, 6000)),
        one.says(2000, e.CircuitClosed(Scope(), "recovered", 1.0)),
        two.says(90_000, opened(_P1, 7, 96_000)),
    ]
    assert [90_000] == [each.began_ms for each in _outages(entries, since_ms=10_000_000)]


def test_only_the_latest_episodes_are_kept() -> None:
    """The oldest that have ended go first, and it says so."""
    life, episodes = Life("pod-1"), Episodes(most=2)
    for number in range(3):
        assert not episodes.is_full
        episodes.take(life.says(number * 1000, opened(_P0, number, 5000)))
        episodes.take(life.says(number * 1000 + 9, e.CircuitClosed(Scope(), "recovered", 1.0)))
        if number == 1:
            break
    episodes.take(life.says(5000, opened(_P0, 7, 9000)))
    assert episodes.is_full
    episodes.take(life.says(5001, e.CircuitClosed(Scope(), "recovered", 1.0)))
    assert [1000, 5000] == [each.opened_ms for each in episodes.since(0, ())]


def _random(rng: random.Random) -> list[Entry]:
    """Of three members with two scopes, in which any entry may be missing."""
    found = []
    for member in range(3):
        life, at_ms = Life(f"pod-{member}"), rng.randrange(100_000)
        for _ in range(rng.randrange(40)):
            at_ms += rng.randrange(4000)
            partition = ("orders", rng.randrange(2))
            scope = Scope(*partition)
            events: list[e.Event] = [
                opened(partition, rng.randrange(9), at_ms + 500, scope),
                failed(partition, rng.randrange(9), 2, at_ms + 500, scope),
                e.CircuitClosed(scope, rng.choice(get_args(CloseOutcome)), 1.5),
            ]
            found.append(life.says(at_ms, rng.choice(events)))
    return found


def _row(each: Episode) -> tuple[object, ...]:
    held = (None, None, None) if each.held is None else tuple(each.held)
    scope = each.scope.topic, each.scope.partition
    known = each.sequence, each.opened_ms, each.last_ms, each.outcome, each.open_s
    return (each.instance, *scope, *known, *held, each.error, each.attempts)


def test_its_episodes_are_those_that_spark_finds() -> None:
    """Whatever is missing: the same beginnings, ends and outcomes as the law of the lake's."""
    for seed in range(200):
        entries = _random(random.Random(seed))
        episodes = Episodes()
        for entry in entries:
            episodes.take(entry)
        found = sorted(map(repr, map(_row, episodes.since(0, ()))))
        lake = [
            (*row[2:6], *row[8:10], *row[12:18], 1 + len(row[19]))  # type: ignore[arg-type]
            for row in expected_episodes(entries)
        ]
        assert sorted(map(repr, lake)) == found
