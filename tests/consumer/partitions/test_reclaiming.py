"""The events of partitions that were given up and taken back."""

from linear_retry import events
from tests.consumer.group import FakeGroup, Protocol
from tests.consumer.misbehaviours.misbehaving import (
    all_protocols,
    emitted,
    ends_well,
    reading,
    until,
)


def test_what_was_given_up_and_is_ours_still_is_assigned_again() -> None:
    """The bug: `Lost` was reported, and nothing when it was read on; a dashboard had it as gone."""
    group = FakeGroup(partitions=1)
    member = group.join()
    group.share([0])
    group.turn()
    group.fake.clock.suspend(100)
    group.produce(0, 2)
    group.finish()
    kinds = (events.Assigned, events.Lost, events.PartitionRevived)
    received = [type(event) for event in member.events if isinstance(event, kinds)]
    assert [events.Assigned, events.Lost, events.Assigned, events.PartitionRevived] == received
    assert [] == group.violations()


@all_protocols
def test_nothing_is_taken_back_while_no_broker_is_there(protocol: Protocol) -> None:
    """The machine has slept, and the network is not back yet: that nobody says that the partitions
    are another's is no news. With `group.protocol=consumer` the client could die of it."""
    group = reading(protocol)
    (member,) = group.members
    group.fake.faults.brokers_down = True
    group.fake.clock.suspend(100)
    before = len(emitted(member, events.Assigned))
    group.turn(60)
    assert 1 == len(emitted(member, events.Lost))
    assert before == len(emitted(member, events.Assigned))
    group.fake.faults.brokers_down = False
    until(group, lambda: len(emitted(member, events.Assigned)) > before)
    ends_well(group)
