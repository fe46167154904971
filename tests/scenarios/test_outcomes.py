"""A message that fails for good: dead-lettered, skipped, or the end."""

import pytest

from linear_retry import Strategy, events
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import Scripted

pytestmark = pytest.mark.broker


def test_outages_and_poison_on_four_partitions(scene: SceneFactory) -> None:
    """Two outages and two poisonous ones among 400 messages: in order, all done, two letters."""
    group = scene(4, strategy=[0.05] * 40)
    for partition in range(4):
        group.produce(100, partition)
    script = {
        "1@10": ["outage"] * 6,
        "3@60": ["outage"] * 12,
        "0@33": ["poison"],
        "2@77": ["outage", "poison"],
    }
    member = group.join("first", Scripted(script), strategy=Strategy([0.05] * 40))
    group.wait_until_done()
    member.stop()
    letters = {
        (letter.original_partition, letter.original_offset): letter.reason
        for letter in group.dead_letters()
    }
    assert {(0, 33): "permanent", (2, 77): "permanent"} == letters
    assert 400 + 6 + 12 + 1 == len(group.attempts())
    assert ["recovered", "recovered", "dead-lettered"] == sorted(
        (event.outcome for event in group.emitted(events.CircuitClosed)), reverse=True
    )
    assert [] == group.violations()
