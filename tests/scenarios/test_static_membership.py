"""Static members leave, and come back."""

import pytest

from linear_retry import events
from tests.kafka_operations import wait_until
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import Dependency
from tests.scenarios.protocols import KIP_848, each_protocol, soon_missed
from tests.scenarios.scene import Scene

pytestmark = pytest.mark.broker


@each_protocol
def test_restarted_while_open(protocol: dict[str, str], scene: SceneFactory) -> None:
    """A static member that is restarted while open finds its partitions; told to, it counts again.

    Nobody else is given them meanwhile.
    """
    group = scene(4, config=protocol, strategy=[0.1])
    for number in range(4):
        group.produce(5, number)
    dependency = Dependency()
    dependency.down = True
    always = {"on_exhausted": "repeat", "remember_failures": False}
    life = group.join("life-1", dependency, config=_named("one"), **always)
    group.wait_for(events.CircuitOpened, member="life-1")
    other = group.join("other", dependency, config=_named("two"), **always)
    group.wait_for(events.CircuitOpened, member="other")
    group.wait_for(events.ProbeFailed, 2, member="life-1")
    life.stop()
    assigned_before = len(group.emitted(events.Assigned, "other"))
    again = group.join("life-2", dependency, config=_named("one"), **always)
    opened = group.wait_for(events.CircuitOpened, member="life-2")
    dependency.down = False
    group.wait_until_done()
    again.stop()
    other.stop()
    assert 1 == opened.failures
    assert [False] == [event.left_group for event in group.emitted(events.Stopped, "life-1")]
    assert assigned_before == len(group.emitted(events.Assigned, "other"))
    assert [] == group.violations()


@each_protocol
def test_gone_for_good_while_open(protocol: dict[str, str], scene: SceneFactory) -> None:
    """What a static member held is another's once its session has ended, and no message is lost."""
    group = scene(2, config=protocol, strategy=[0.1])
    dependency, down = Dependency(), Dependency()
    down.down = True
    config = soon_missed(protocol | _named("one"))
    gone = group.join("gone", down, config=config, on_exhausted="repeat")
    group.wait_for(events.Assigned, member="gone")
    other = group.join("other", dependency, config=_named("two"))
    wait_until(lambda: _shared(group), "each has one", detail=group.story)
    for number in range(2):
        group.produce(5, number)
    held = group.wait_for(events.ProbeFailed, member="gone")
    gone.stop()
    group.wait_until_done()
    other.stop()
    assert (group.topic, held.partition, held.offset) in group.handled("other")
    assert [] == group.violations()


def test_killed_and_started_again(scene: SceneFactory) -> None:
    """In a KIP-848 group its name is taken until its former self's session is over. That ended it
    at once (`FencedError`), and a service flapped for so long; it waits, and says so."""
    group = scene(2, config=KIP_848)
    killed = group.spawn("life-1", config=_named("one"))
    group.wait_for(events.Assigned, member="life-1")
    killed.kill()
    again = group.join("life-2", Dependency(), config=_named("one"))
    taken = group.wait_for(events.InstanceIdTaken, member="life-2")
    group.wait_for(events.Assigned, member="life-2")
    for number in range(2):
        group.produce(5, number)
    group.wait_until_done()
    again.stop()
    assert "one" == taken.group_instance_id
    assert [] == group.emitted(events.ClientReplaced)
    assert [] == group.violations()


def _named(name: str) -> dict[str, str]:
    return {"group.instance.id": name}


def _shared(group: Scene) -> bool:
    return any(len(event.partitions) == 1 for event in group.emitted(events.Assigned, "other"))
