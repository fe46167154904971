"""Helpers for tests of one misbehaviour each."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from linear_retry import events
from linear_retry.consumer.partitions.assignment import FIRST_TIMEOUT_S
from linear_retry.scope import Partition
from linear_retry.testing import AttemptStarted, Place
from tests.consumer.group import TOPIC, FakeGroup, Member, Protocol

_E = TypeVar("_E", bound=events.Event)

P0: Partition = (TOPIC, 0)
P1: Partition = (TOPIC, 1)

all_protocols = pytest.mark.parametrize("protocol", ["eager", "cooperative", "consumer"])

_TURNS = 1000


def emitted(member: Member, kind: type[_E]) -> list[_E]:
    return [event for event in member.events if isinstance(event, kind)]


def turn_until(group: FakeGroup, member: Member, kind: type[events.Event], times: int = 1) -> None:
    """Turn, until the member has emitted so many of these."""
    until(group, lambda: len(emitted(member, kind)) >= times)


def begun(group: FakeGroup) -> list[tuple[float, Place]]:
    """When the handler was called, and with which message."""
    return [
        (entry.at_s, entry.place)
        for entry in group.witness.entries
        if isinstance(entry, AttemptStarted)
    ]


def until(group: FakeGroup, done: Callable[[], object]) -> None:
    """Turn, until `done()`."""
    for _ in range(_TURNS):
        if done():
            return
        group.turn()
    raise AssertionError("it never came")


def reading(protocol: Protocol, **options: Any) -> FakeGroup:
    """One member that has handled the first of several messages in each of two partitions."""
    group = FakeGroup(**{"protocol": protocol, "partitions": 2} | options)
    group.produce(0, 1)
    group.produce(1, 1)
    group.join()
    group.share([0, 0])
    until(group, group.all_done)
    group.produce(0, 9)
    group.produce(1, 9)
    return group


def open_circuit(protocol: Protocol, **options: Any) -> FakeGroup:
    """The same, and its circuit has just opened for the next message of the first partition."""
    group = reading(protocol, **options)
    group.dependency.down_for = {P0}
    until(group, lambda: emitted(group.members[0], events.CircuitOpened))
    return group


def ends_well(group: FakeGroup) -> None:
    """The dependency is up again: everything is done, and every promise was kept.

    And whatever was to go wrong did.
    """
    group.dependency.down = False
    group.dependency.down_for = set()
    group.finish()
    broken = group.violations()
    assert not broken, "\n".join(broken)
    assert not group.fake.faults.left()


def nothing_was_dead(member: Member) -> None:
    """Nor taken for dead: the watchdog is the last resort, and takes its time."""
    assert [] == emitted(member, events.PartitionRevived)


LONGER_THAN_PATIENCE_S = FIRST_TIMEOUT_S + 2
