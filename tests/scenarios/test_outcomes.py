"""A message that fails for good: dead-lettered, skipped, or the end."""

from typing import Any

import pytest

from linear_retry import ExhaustedError, PermanentError, Strategy, events
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import Scripted

pytestmark = pytest.mark.broker


@pytest.mark.parametrize(
    ("steps", "options", "error", "failures"),
    [
        (["outage"] * 3, {"on_exhausted": "stop"}, ExhaustedError, 3),
        (["outage", "poison"], {"on_permanent": "stop"}, PermanentError, 2),
    ],
    ids=["exhausted", "permanent"],
)
def test_stop(
    scene: SceneFactory,
    steps: list[str],
    options: dict[str, Any],
    error: type[ExhaustedError | PermanentError],
    failures: int,
) -> None:
    """`"stop"` raises with the message's place, and nothing is committed past it."""
    group = scene(strategy=[0.05, 0.05])
    group.produce(4)
    member = group.join("first", Scripted({"0@2": steps}), **options)
    with pytest.raises(error) as raised:
        member.result()
    place = (raised.value.topic, raised.value.partition, raised.value.offset)
    assert ((group.topic, 0, 2), failures) == (place, raised.value.failures)
    assert {(group.topic, 0): 2} == group.committed()
    assert [] == group.dead_letters()
    assert [] == group.violations(finished=False)


def test_skip(scene: SceneFactory) -> None:
    """`on_permanent="skip"`: said, with the id that a letter would have had; then on."""
    group = scene()
    group.produce(4)
    member = group.join("first", Scripted({"0@2": ["poison"]}), on_permanent="skip")
    group.wait_until_done()
    member.stop()
    (skipped,) = group.said(events.Skipped)
    assert (group.topic, 0, 2) == (skipped.topic, skipped.partition, skipped.offset)
    assert skipped.retry_id.startswith(f"{group.group}/{group.topic}/0/2/")
    assert [] == group.dead_letters()
    assert [] == group.violations()


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
        (event.outcome for event in group.said(events.CircuitClosed)), reverse=True
    )
    assert [] == group.violations()
