"""A quiet stretch shows what stands still."""

from dataclasses import replace

import pytest

from linear_retry import events
from linear_retry.consumer.operations.stalled_partition import StalledPartitionWatchdog
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.scope import Scope
from linear_retry.testing import Entry, EventEmitted
from tests.consumer.group import FakeGroup
from tests.testing.logs import P0, assigned, attempt, opened
from tests.testing.violations import others_go_on

_OTHER = Scope("refunds")


def _opened(scope: Scope) -> EventEmitted:
    emitted = opened(1, 0)
    assert isinstance(emitted.event, events.CircuitOpened)
    return replace(emitted, event=replace(emitted.event, scope=scope))


def _closed(scope: Scope) -> EventEmitted:
    return EventEmitted(2, "one", events.CircuitClosed(scope, "recovered", 1.0))


@pytest.mark.parametrize(
    ("log", "broken"),
    [
        ([assigned(0), *attempt(1, 0)], 0),
        ([assigned(0)], 1),
        ([assigned(0), _opened(Scope(*P0))], 0),
        ([assigned(0), _opened(_OTHER)], 1),
        ([assigned(0), _opened(Scope(*P0)), _closed(Scope(*P0))], 1),
    ],
)
def test_what_stands_still_is_seen(log: list[Entry], broken: int) -> None:
    """Undone with no open circuit over it, or with another scope's only."""
    assert broken == len(list(others_go_on(log, {P0: [0]})))


def test_a_group_on_the_fake_is_asked_whether_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there to read is in its log: a consumer that never resumes is seen by that alone."""
    monkeypatch.setattr(FlowControl, "resume", lambda *_: None)
    monkeypatch.setattr(StalledPartitionWatchdog, "tick", lambda _: None)
    group = FakeGroup(partitions=1)
    group.join()
    group.share([0])
    group.produce(0, 2)
    group.dependency.down = True
    group.turn(2)
    group.dependency.down = False
    group.turn(60)
    (found,) = group.violations(finished=False)
    assert found.startswith("Liveness: orders[0] was blocked for")
