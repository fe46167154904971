"""A topic is deleted and created again within seconds, on brokers that have failed over before."""

import pytest

from linear_retry import events
from tests.kafka_operations import wait_until
from tests.real_kafka import RealKafka
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import Dependency
from tests.scenarios.protocols import each_protocol
from tests.scenarios.scene import Scene

pytestmark = pytest.mark.broker


def _failed_over(scene: Scene, kafka: RealKafka) -> None:
    """With leader epochs at 0, librdkafka finds out by itself: the offset is out of range."""
    for _ in range(2):
        kafka.restart()
    wait_until(lambda: scene.kafka.end_offsets(scene.topic), "the topic has a leader")


def _again(kafka: RealKafka, topic: str) -> None:
    kafka.delete_topic(topic)
    kafka.create_topic(topic, 1)


@each_protocol
def test_a_topic_that_is_created_again_is_read(
    protocol: dict[str, str], own_kafka: RealKafka, own_scene: SceneFactory
) -> None:
    """The bug: librdkafka reads nothing of the new topic and reports nothing, for ever."""
    group = own_scene(config=protocol)
    _failed_over(group, own_kafka)
    group.produce(10)
    member = group.join("first", Dependency())
    end = {(group.topic, 0): 10}
    wait_until(lambda: group.committed() == end, "all is committed", detail=group.story)
    group.wait_for(events.Assigned)
    _again(own_kafka, group.topic)
    group.kafka.produce(group.topic, [(0, None, b"new", ())] * 3)
    wait_until(lambda: len(group.handled()) == 13, "the new ones", group.story)
    wait_until(lambda: group.committed() == {(group.topic, 0): 3}, "they are committed")
    member.stop()
    assert [*range(10), *range(3)] == [offset for _, _, offset in group.handled()]
    if protocol.get("group.protocol") != "consumer":  # that one was taken away, and given again
        assert [events.DataLost(group.topic, 0, 10, 0)] == group.emitted(events.DataLost)


@each_protocol
def test_a_message_is_held_meanwhile(
    protocol: dict[str, str], own_kafka: RealKafka, own_scene: SceneFactory
) -> None:
    """Its offset may be committed in the new topic, and the brokers of a KIP-848 group take the
    partition away and give it again: the new one is read from its first message all the same."""
    group = own_scene(config=protocol)
    _failed_over(group, own_kafka)
    group.produce(10)
    dependency = Dependency()
    member = group.join("first", dependency, on_exhausted="repeat")
    end = {(group.topic, 0): 10}
    wait_until(lambda: group.committed() == end, "all is committed", detail=group.story)
    dependency.down = True
    group.produce(1)
    group.wait_for(events.CircuitOpened)
    _again(own_kafka, group.topic)
    group.kafka.produce(group.topic, [(0, None, b"new", ())] * 20)
    dependency.down = False
    end = {(group.topic, 0): 20}
    wait_until(lambda: group.committed() == end, "they are committed", detail=group.story)
    member.stop()
    assert list(range(20)) == [offset for _, _, offset in group.handled()][-20:]
