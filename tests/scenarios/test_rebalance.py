"""Partitions come and go while their circuit is open."""

from typing import TypeAlias

import pytest

from linear_retry import RetryAfter, events
from linear_retry.kafka import Message
from linear_retry.scope import Partition, Scope
from linear_retry.testing import AttemptStarted, EventEmitted
from tests.kafka_operations import wait_until
from tests.scenarios.handlers import Dependency
from tests.scenarios.protocols import EAGER, KIP_848, each_protocol
from tests.scenarios.wide_scene import WideScene, WideSceneFactory

pytestmark = pytest.mark.broker

TO_AND_FRO_S = 5.0
"""Long enough for a member to join and to leave."""
TO_S = 3.0
"""Long enough for a member to join."""

Protocol: TypeAlias = dict[str, str]


class LongOutage(Dependency):
    """Down at first, and asks for a long wait once; up again, all is well."""

    def __init__(self, wait_s: float) -> None:
        super().__init__()
        self.down = True
        self._wait_s = wait_s
        self._asked = False

    def __call__(self, message: Message) -> None:
        if self.down and not self._asked:
            self._asked = True
            raise RetryAfter(self._wait_s)
        super().__call__(message)


@each_protocol
def test_goes_and_comes_back_while_open(protocol: Protocol, wide_scene: WideSceneFactory) -> None:
    """A held message whose partition went and came back waits for retry_at, and counts on."""
    # Who takes only the topic of one partition gets it from who takes both.
    group = wide_scene(protocol, 1, 2, strategy=[0.1])
    moving, staying = group.topics
    group.fill(moving, 5)
    mine, theirs = LongOutage(TO_AND_FRO_S), Dependency()
    theirs.down = True
    first = group.join("z-first", mine, topics=[moving, staying], on_exhausted="repeat")
    opened = group.wait_for(events.CircuitOpened, member="z-first")
    second = group.join("a-second", theirs, topics=[moving], on_exhausted="repeat")
    taken = group.wait_for(events.CircuitOpened, member="a-second")
    group.fill(staying, 3, 0)
    group.fill(staying, 3, 1)
    second.stop()
    failed_again = group.wait_for(events.ProbeFailed, member="z-first")
    mine.down = False
    group.wait_until_done()
    first.stop()
    assert (moving, 0, 0) == (opened.topic, opened.partition, opened.offset)
    assert (moving, 0, 0, 1) == (taken.topic, taken.partition, taken.offset, taken.failures)
    # The first to come is the probe: of what stayed, or the one that has come back.
    assert (failed_again.topic, failed_again.failures) in ((staying, 1), (moving, 2))
    _, came_back_s = assigned_at_s(group, "z-first", (moving, 0))
    assert came_back_s < begun_at_s(group, "z-first")[1]
    assert [] == group.violations()


@each_protocol
def test_goes_to_another_for_good(protocol: Protocol, wide_scene: WideSceneFactory) -> None:
    """The held message is its new owner's, and the first of what stayed the probe."""
    # Who takes only the topic of one partition gets it from who takes both.
    group = wide_scene(protocol, 1, 2, strategy=[0.1])
    moving, staying = group.topics
    group.fill(moving, 5)
    mine = LongOutage(TO_S)
    choices = {"on_exhausted": "repeat", "remember_failures": False}
    first = group.join("z-first", mine, topics=[moving, staying], **choices)
    group.wait_for(events.CircuitOpened, member="z-first")
    second = group.join("a-second", Dependency(), topics=[moving])
    wait_until(lambda: len(group.handled("a-second")) == 5, "the new owner has handled it all")
    open_still = first.consumer.circuits[Scope()]
    group.fill(staying, 3, 0)
    group.fill(staying, 3, 1)
    failed = group.wait_for(events.ProbeFailed, member="z-first")
    mine.down = False
    group.wait_until_done()
    first.stop()
    second.stop()
    assert ("open", None) == (open_still.state, open_still.offset)
    assert (staying, 1) == (failed.topic, failed.failures)
    assert [(moving, 0, offset) for offset in range(5)] == group.handled("a-second")
    assert [] == group.violations()


@pytest.mark.parametrize(
    "protocol",
    [EAGER, KIP_848 | {"group.remote.assignor": "range"}],
    ids=["eager", "consumer"],
)
def test_nothing_assigned_for_a_while(protocol: Protocol, wide_scene: WideSceneFactory) -> None:
    """With nothing assigned the circuit ends at retry_at, and what comes later is just read."""
    group = wide_scene(protocol, 1, 2, strategy=[0.1])
    moving = group.topic
    group.fill(moving, 3)
    mine = LongOutage(TO_S)
    first = group.join("z-first", mine)
    opened = group.wait_for(events.CircuitOpened, member="z-first")
    # The broker's range assignor serves static members first.
    static = {"group.instance.id": "second"} if "group.protocol" in protocol else {}
    second = group.join("a-second", Dependency(), config=static)
    wait_until(lambda: len(group.handled("a-second")) == 3, "the new owner has handled it all")
    closed = group.wait_for(events.CircuitClosed, member="z-first")
    mine.down = False
    second.stop()
    group.fill(moving, 2)
    group.wait_until_done()
    first.stop()
    assert "dropped" == closed.outcome
    assert opened.delay_s <= closed.open_s
    assert [(moving, 0, 0), (moving, 0, 3), (moving, 0, 4)] == group.attempts("z-first")
    assert [] == group.violations()


def assigned_at_s(group: WideScene, member: str, partition: Partition) -> list[float]:
    """When this member was given this partition."""
    return [
        entry.at_s
        for entry in group.log()
        if isinstance(entry, EventEmitted) and entry.member == member
        if isinstance(entry.event, events.Assigned) and partition in entry.event.partitions
    ]


def begun_at_s(group: WideScene, member: str) -> list[float]:
    """When this member's handler was called."""
    begun = [entry for entry in group.log() if isinstance(entry, AttemptStarted)]
    return [entry.at_s for entry in begun if entry.member == member]
