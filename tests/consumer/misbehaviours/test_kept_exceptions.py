"""No state of a partition outlives it."""

import pytest

from linear_retry import events
from tests.consumer.group import FakeGroup, Protocol
from tests.consumer.misbehaviours.misbehaving import all_protocols, emitted, until
from tests.soak.retained import entries

_TOPICS = 12


def _passes_through(group: FakeGroup, topic: str) -> None:
    """The topic's partitions come, open their circuits, have letters sent, and go."""
    (member,) = group.members
    partitions = [(topic, number) for number in range(2)]
    for partition in partitions:
        group.produce(partition, 4)
    group.fake.assign(member.consumer, partitions)
    group.dependency.down_for = set(partitions)
    opened = len(emitted(member, events.CircuitOpened))
    until(group, lambda: len(emitted(member, events.CircuitOpened)) >= opened + 2)
    group.dependency.down_for = set()
    until(group, lambda: all(group.fake.group("billing").get(p, 0) == 4 for p in partitions))
    group.fake.assign(member.consumer, [])
    until(group, lambda: not member.parts.assignment.partitions)


@all_protocols
@pytest.mark.parametrize("transactional", [False, True])
def test_what_is_gone_is_forgotten(protocol: Protocol, transactional: bool) -> None:
    """State is bounded by what is assigned. The bug: each scope's pybreaker was kept for ever, and
    a member of a group with thousands of partitions has all of them one day."""
    topics = [f"orders-{number}" for number in range(_TOPICS)]
    group = FakeGroup(
        protocol=protocol,
        topics=topics,
        partitions=2,
        scope="partition",
        strategy=[1],
        transactional=transactional,
    )
    member = group.join()
    group.dependency.refuses = {(0, 2)}
    kept: list[int] = []
    for topic in topics:
        _passes_through(group, topic)
        kept.append(entries(member.parts))
    assert kept[:1] * _TOPICS == kept
