"""Retention removes messages that a consumer has still to read."""

import pytest

from linear_retry import DataLossError, events
from linear_retry.testing import Place
from tests.kafka_operations import wait_until
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import Dependency
from tests.scenarios.protocols import PROTOCOLS, both_protocols
from tests.scenarios.scene import Member, Scene
from tests.testing.violations import violations

pytestmark = [
    pytest.mark.broker,
    # The warning about `latest` is meant for who did not mean it.
    pytest.mark.filterwarnings("ignore:auto.offset.reset=latest"),
]

HELD, LOW, END = 3, 7, 10


class Waiting:
    """A member that holds message 3 of 10, of which retention has removed all before `low`."""

    def __init__(
        self, scene: SceneFactory, protocol: dict[str, str], reset: str, low: int = LOW
    ) -> None:
        self.group: Scene = scene(2, strategy=[0.1], config=protocol)
        self.group.produce(HELD)
        self.dependency = Dependency()
        earliest = {"auto.offset.reset": "earliest"}
        before = self.group.join("before", self.dependency, config=earliest)
        self.group.wait_until_done()
        # `error` wants a committed offset in every partition.
        wait_until(lambda: len(self.group.committed()) == 2, "both are committed")
        before.stop()
        self.dependency.down = True
        self.group.produce(END - HELD)
        self.visible = self.group.visible()
        config = {"auto.offset.reset": reset}
        self.member: Member = self.group.join(
            "first", self.dependency, config=config, on_exhausted="repeat"
        )
        self.group.wait_for(events.ProbeFailed)
        self.group.kafka.delete_records(self.group.topic, 0, low)
        self.dependency.down = False

    def handled(self, *offsets: int) -> list[Place]:
        return [Place(self.group.topic, 0, offset) for offset in offsets]

    def violations(self, *, finished: bool = True) -> list[str]:
        return violations(
            self.group.log(),
            self.visible,
            committed=self.group.committed(),
            strategy_length=1,
            finished=finished,
        )


@both_protocols
def test_goes_on_at_the_low_watermark(protocol: dict[str, str], scene: SceneFactory) -> None:
    """The held message is handled from memory; the loss is reported, and what is left is read."""
    waiting = Waiting(scene, protocol, "earliest")
    group = waiting.group
    wait_until(lambda: len(group.handled("first")) == 4, "what is left", detail=group.story)
    waiting.member.stop()
    topic = group.topic
    assert [events.DataLost(topic, 0, HELD + 1, LOW)] == group.emitted(events.DataLost)
    assert waiting.handled(HELD, 7, 8, 9) == group.handled("first")
    assert [] == waiting.violations()


def test_goes_on_at_the_end(scene: SceneFactory) -> None:
    """With `latest` what is left is passed over, and said to be lost as well."""
    waiting = Waiting(scene, PROTOCOLS["eager"], "latest")
    group = waiting.group
    group.wait_for(events.DataLost)
    wait_until(lambda: group.committed()[group.topic, 0] == END, "it is at the end")
    group.produce(2)
    wait_until(lambda: len(group.handled("first")) == 3, "what is new", detail=group.story)
    waiting.member.stop()
    assert [events.DataLost(group.topic, 0, HELD + 1, END)] == group.emitted(events.DataLost)
    assert waiting.handled(HELD, 10, 11) == group.handled("first")
    assert [] == waiting.violations()


def test_loses_nothing_after_the_loss(scene: SceneFactory) -> None:
    """With `latest` the end that it went to is committed: the next owner goes on there.

    It used to go to the end once more, and what had come meanwhile and failed was lost.
    """
    waiting = Waiting(scene, PROTOCOLS["eager"], "latest")
    group = waiting.group
    wait_until(lambda: group.committed()[group.topic, 0] == END, "it is at the end")
    waiting.dependency.down = True
    group.produce(2)
    group.wait_for(events.CircuitOpened, 2, member="first")
    waiting.member.stop()
    waiting.dependency.down = False
    second = group.join("second", waiting.dependency, config={"auto.offset.reset": "latest"})
    wait_until(lambda: len(group.handled("second")) == 2, "what came", detail=group.story)
    second.stop()
    assert waiting.handled(10, 11) == group.handled("second")
    assert [] == group.emitted(events.DataLost, "second")
    assert [] == waiting.violations()


def test_a_loss_is_reported_once(scene: SceneFactory) -> None:
    """With nothing left behind the held message, later outages do not find it lost once more."""
    waiting = Waiting(scene, PROTOCOLS["eager"], "earliest", low=END)
    group = waiting.group
    wait_until(lambda: group.committed()[group.topic, 0] == END, "it is at the end")
    waiting.dependency.down = True
    group.produce(1, 1)
    group.wait_for(events.CircuitOpened, 2, member="first")
    waiting.dependency.down = False
    group.wait_for(events.CircuitClosed, 2, member="first")
    group.produce(1)
    wait_until(lambda: len(group.handled("first")) == 3, "what is new", detail=group.story)
    waiting.member.stop()
    assert [events.DataLost(group.topic, 0, HELD + 1, END)] == group.emitted(events.DataLost)
    assert (group.topic, 0, END) == group.handled("first")[-1]
    assert [] == waiting.violations()


def test_ends_where_loss_is_an_error(scene: SceneFactory) -> None:
    """With `error` the held message is handled and committed, and then the run ends."""
    waiting = Waiting(scene, PROTOCOLS["eager"], "error")
    group = waiting.group
    with pytest.raises(DataLossError, match=rf"\[0\]@{HELD + 1}"):
        waiting.member.result()
    assert waiting.handled(HELD) == group.handled("first")
    assert HELD + 1 == group.committed()[group.topic, 0]
    assert [] == waiting.violations(finished=False)
