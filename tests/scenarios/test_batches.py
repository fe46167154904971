"""Members with a handler of lists, on a real broker."""

from pathlib import Path

import pytest

from linear_retry import Strategy, events
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import Dependency, Scripted
from tests.scenarios.protocols import each_protocol
from tests.scenarios.scene import Scene

pytestmark = pytest.mark.broker


@each_protocol
def test_outages_and_poison(protocol: dict[str, str], scene: SceneFactory) -> None:
    """Among 2,000 messages: in order, all done, and a letter for each poisonous one alone."""
    group = scene(4, strategy=[0.05] * 40, config=protocol)
    for partition in range(4):
        group.produce(500, partition)
    script = {"1@100": ["outage"] * 6, "0@33": ["poison"] * 2, "2@477": ["outage", *["poison"] * 2]}
    member = group.join("first", Scripted(script), batches=True)
    group.wait_until_done()
    member.stop()
    letters = {
        (letter.original_partition, letter.original_offset): letter.reason
        for letter in group.dead_letters()
    }
    assert {(0, 33): "permanent", (2, 477): "permanent"} == letters
    assert len(group.attempts()) < 2000  # of batches
    assert [] == group.violations()


@each_protocol
def test_another_member_while_a_batch_is_held(
    protocol: dict[str, str], scene: SceneFactory
) -> None:
    """The held batch stays or goes with its partition; nothing is lost, and all is in order."""
    group = scene(4, strategy=[0.2] * 100, config=protocol)
    down = Dependency()
    for partition in range(4):
        group.produce(50, partition)
    strategy = Strategy(group.strategy)
    first = group.join("first", down, batches=True, strategy=strategy)
    group.wait_for_attempts(4)
    down.down = True
    for partition in range(4):
        group.produce(50, partition)
    group.wait_for(events.CircuitOpened)
    second = group.join("second", down, batches=True, strategy=strategy)
    group.wait_for(events.Assigned, member="second")
    down.down = False
    group.wait_until_done()
    first.stop()
    second.stop()
    assert [] == group.violations()


def test_killed_in_a_batch(scene: SceneFactory, tmp_path: Path) -> None:
    """None of it is done: the next life begins with its first message."""
    group = scene()
    group.produce(300)
    first = group.spawn("first", {"0@2": [f"gate {tmp_path / 'gate'}"]}, batches=True)
    group.wait_for_attempts(2)
    first.kill()
    second = group.join("second", Dependency(), batches=True)
    group.wait_until_done()
    second.stop()
    assert group.attempts("second")[0] <= group.attempts("first")[1]
    assert [] == group.violations()


def _has_handled(group: Scene, member: str, count: int) -> bool:
    return len(group.handled(member)) >= count
