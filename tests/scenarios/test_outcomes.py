"""A message that fails for good: dead-lettered, skipped, or the end."""

import pytest

from linear_retry import Strategy, events
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import Dependency, Scripted

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


def test_a_message_ends_by_time(scene: SceneFactory) -> None:
    """With `max_elapsed` the delays do not run out, and it is a dead letter all the same; the time
    at an owner before counts."""
    group = scene(strategy=[0.2] * 50)
    strategy, down = Strategy(group.strategy, max_elapsed="1.5s"), Dependency()
    down.down = True
    group.produce(2)
    gone = group.join("gone", down, strategy=strategy)
    group.wait_for_attempts(4, "gone")
    gone.stop()
    staying = group.join("staying", down, strategy=strategy)
    letter = group.wait_for(events.DeadLettered)
    down.down = False
    group.wait_until_done()
    staying.stop()
    assert ("exhausted", 0) == (letter.reason, letter.offset)
    (first,) = [letter for letter in group.dead_letters() if letter.original_offset == 0]
    attempts = [place for place in group.attempts() if place.offset == 0]
    # A ninth failure would have a retry after it that is too late.
    assert 4 <= len(attempts) == first.failures <= 8
    assert [] == group.violations(max_elapsed=True)
