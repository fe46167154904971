"""A topic is deleted and created again within seconds, on brokers that have failed over before."""

from collections.abc import Iterator

import pytest

from linear_retry import events
from tests.kafka_operations import wait_until
from tests.real_kafka import RealKafka
from tests.scenarios.conftest import SceneFactory, new_topic
from tests.scenarios.handlers import Dependency
from tests.scenarios.protocols import PROTOCOLS, each_protocol

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def topics(disturbed_kafka: RealKafka) -> Iterator[str]:
    """Topics with leader epochs above 0: else librdkafka finds out by itself, as the offset is out
    of range."""
    made = [new_topic(disturbed_kafka) for _ in range(2 * len(PROTOCOLS))]
    for _ in range(2):
        disturbed_kafka.restart()
    return iter(made)


@pytest.fixture
def failed_over(topics: Iterator[str], own_kafka: RealKafka) -> str:
    """The next of them, once it has a leader."""
    topic = next(topics)
    wait_until(lambda: own_kafka.end_offsets(topic), "the topic has a leader")
    return topic


def _again(kafka: RealKafka, topic: str) -> None:
    kafka.delete_topic(topic)
    kafka.create_topic(topic, 1)


@each_protocol
def test_a_topic_that_is_created_again_is_read(
    protocol: dict[str, str], failed_over: str, own_kafka: RealKafka, own_scene: SceneFactory
) -> None:
    """The bug: librdkafka reads nothing of the new topic and reports nothing, for ever."""
    group = own_scene(topic=failed_over, config=protocol)
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
    protocol: dict[str, str], failed_over: str, own_kafka: RealKafka, own_scene: SceneFactory
) -> None:
    """Its offset may be committed in the new topic, and the brokers of a KIP-848 group take the
    partition away and give it again: the new one is read from its first message all the same."""
    group = own_scene(topic=failed_over, config=protocol)
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
