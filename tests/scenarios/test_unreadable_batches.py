"""A batch of a real broker's log cannot be read."""

from typing import Any

import pytest

from linear_retry import events
from linear_retry.kafka import Message
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.protocols import EAGER, KIP_848
from tests.scenarios.scene import Scene

pytestmark = pytest.mark.broker

_BATCH = 5


def _scene(kafka: RealKafka, make: SceneFactory, length: int, config: dict[str, Any]) -> Scene:
    """Two partitions with three batches; the second of the first has a wrong checksum."""
    group = make(2, config={"check.crcs": True, **config})
    for partition in (0, 0, 0, 1):
        group.write([(partition, None, b"x" * length, [])] * _BATCH)
    kafka.stop()
    kafka.corrupt(group.topic, 0, _BATCH)
    kafka.start()
    return group


def _handle(_: Message) -> None:
    """All is well."""


@pytest.mark.parametrize(
    ("length", "protocol"), [(5, EAGER), (100, KIP_848)], ids=["repeats", "garbage"]
)
def test_it_stops_its_partition_until_it_is_stepped_over(
    own_kafka: RealKafka, own_scene: SceneFactory, length: int, protocol: dict[str, str]
) -> None:
    """The bug: a loop without an end, in which the messages before it were handled again and again.

    It is read again in vain; then an operator steps over it, and its messages only are lost.
    """
    group = _scene(own_kafka, own_scene, length, protocol)
    member = group.join("first", _handle)
    unread = group.wait_for(events.PartitionUnreadable, 2)
    assert (0, _BATCH, 2) == (unread.partition, unread.offset, unread.attempts)
    assert "CRC32C" in unread.error
    group.wait_for_attempts(2 * _BATCH)
    assert "cannot be read" in member.consumer.health().reason
    assert member.consumer.skip_unreadable(group.topic, 0, _BATCH).result(PATIENCE_S)
    group.wait_until_done()
    wait_until(lambda: "it consumes" == member.consumer.health().reason, "it is well again")
    member.stop()
    assert [events.DataLost(group.topic, 0, _BATCH, 2 * _BATCH)] == group.emitted(events.DataLost)
    assert 3 * _BATCH == len(group.attempts())
    assert [] == group.emitted(events.PartitionRevived)
    assert [] == group.violations()
