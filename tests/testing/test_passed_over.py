"""What a guarantee passes over changes nothing in it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import get_args

from linear_retry import events
from linear_retry.events import Event
from linear_retry.scope import Scope
from linear_retry.testing import (
    AttemptFinished,
    AttemptStarted,
    Entry,
    EventEmitted,
    Guarantee,
    InOrder,
    NothingLate,
    Violation,
    broken,
)
from linear_retry.testing import all_guarantees as all_of
from tests.testing.logs import VISIBLE, assigned, begun
from tests.testing.test_guarantees import BROKEN, HOLD
from tests.torture.schedules.play import KINDS
from tests.torture.schedules.schedule import draw
from tests.torture.schedules.world import World

_OF_NO_ACCOUNT = (
    *(events.LeakDropped, events.RetentionTooShort, events.ClientReplaced, events.CommandAnswered),
    events.InstanceIdTaken,
)
"""Nothing is promised of these."""


def _chosen() -> list[Guarantee]:
    return [*all_of(VISIBLE, strategy_length=1, limit=1), NothingLate()]


def _fed_with_all(log: list[Entry]) -> list[Violation]:
    found: list[Violation] = []
    for guarantee in _chosen():
        for entry in log:
            guarantee.feed(entry)
        guarantee.finish()
        found += guarantee.violations(log)
    return found


def _logs() -> Iterator[list[Entry]]:
    """Written by hand, and of plays; and each with a tenth left out or changed: much is broken."""
    dice = random.Random(0)
    whole = [*HOLD.values(), *(log for _, log, _, _ in BROKEN.values()), *map(_played, range(24))]
    for log in whole:
        yield log
        for _ in range(3):
            yield [entry for entry in log if dice.random() > 0.1]
            yield [_changed(entry, dice) if dice.random() < 0.1 else entry for entry in log]


def _changed(entry: Entry, dice: random.Random) -> Entry:
    """Where it is about one message: something else is said of that, and rarely is."""
    if not isinstance(entry, AttemptStarted | AttemptFinished):
        return entry
    at = entry.place
    rare: list[Event] = [
        events.Skipped(*at, "", ""),
        events.PassedOver(*at, "another"),
        events.HandlerTooSlow(*at, 301.0, 300.0, 1),
        events.LimitReached(Scope(), *at, "", 1, 1.0, datetime.now(UTC), 1),
        events.LimitLifted(dice.choice([None, 1]), ""),
        events.WaitEnded(Scope(), 1.0),
        events.PartitionUnreadable(*at, "", 1, 5.0, datetime.now(UTC)),
        events.PartitionReadable(*at, 5.0),
    ]
    return EventEmitted(entry.at_s, entry.member, dice.choice(rare))


def _played(seed: int) -> list[Entry]:
    schedule = draw(seed, KINDS)
    world = World(schedule.setting)
    world.play(schedule)
    return world.group.witness.entries


def test_what_is_passed_over_changes_nothing() -> None:
    """With all entries or with those that `broken` feeds, each guarantee finds the same."""
    found: set[str] = set()
    met: set[type] = set()
    for log in _logs():
        violations = broken(log, _chosen())
        assert _fed_with_all(log) == violations
        found |= {violation.guarantee for violation in violations}
        met |= {type(entry.event if isinstance(entry, EventEmitted) else entry) for entry in log}
    assert {type(one).__name__ for one in _chosen()} == found
    assert {*get_args(Entry), *get_args(Event)} - met <= {EventEmitted, *_OF_NO_ACCOUNT}


def test_one_that_is_derived_passes_over_nothing() -> None:
    """It may take account of what the one that it is derived from does not."""

    class Watching(InOrder):
        def feed(self, entry: Entry) -> None:
            if not isinstance(entry, AttemptStarted):
                self._break("seen", entry, entry)

    log: list[Entry] = [assigned(1), begun(1, 0)]
    assert ["seen"] == [violation.text for violation in broken(log, [Watching(VISIBLE)])]
