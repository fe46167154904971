"""What does a listener hear of partitions that were given up and are ours still?"""

from __future__ import annotations

from linear_retry import events
from tests.consumer.group import FakeGroup


def test_what_was_given_up_and_is_ours_still_is_assigned_again() -> None:
    """The bug: `Lost` was said, and nothing when it was read on; a dashboard had it as gone."""
    group = FakeGroup(partitions=1)
    member = group.join()
    group.share([0])
    group.turn()
    group.fake.clock.suspend(100)
    group.produce(0, 2)
    group.finish()
    kinds = (events.Assigned, events.Lost, events.PartitionRevived)
    heard = [type(event) for event in member.events if isinstance(event, kinds)]
    assert [events.Assigned, events.Lost, events.Assigned, events.PartitionRevived] == heard
    assert [] == group.violations()
