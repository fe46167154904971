"""Partitions whose offsets have gaps."""

from collections.abc import Sequence

import pytest
from confluent_kafka import Producer

from linear_retry import events
from linear_retry.consumer.partitions.assignment import FIRST_TIMEOUT_S
from linear_retry.retry.clock import SystemClock
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import Dependency, Scripted
from tests.scenarios.protocols import PROTOCOLS, both_protocols
from tests.scenarios.scene import Scene

pytestmark = pytest.mark.broker

COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": "100",
    "max.compaction.lag.ms": "1000",
}


class Transactions:
    """Writes to partition 0 of the group's topic in transactions."""

    def __init__(self, group: Scene) -> None:
        self._topic = group.topic
        self._producer = Producer(
            group.kafka.client_settings(**{"transactional.id": f"writer-of-{group.topic}"})
        )
        self._producer.init_transactions(20)

    def commit(self, count: int) -> None:
        self.begin(count)
        self.end()

    def abort(self, count: int) -> None:
        self.begin(count)
        self._producer.abort_transaction(20)

    def begin(self, count: int) -> None:
        """Written, and neither committed nor aborted yet."""
        self._producer.begin_transaction()
        for _ in range(count):
            self._producer.produce(self._topic, b"value", partition=0)
        self._producer.flush(PATIENCE_S)

    def end(self) -> None:
        self._producer.commit_transaction(20)


@both_protocols
def test_transactions(protocol: dict[str, str], scene: SceneFactory) -> None:
    """Markers and aborted messages are no messages, and what fails beside them is read again."""
    group = scene(config=protocol)
    write = Transactions(group)
    write.commit(2)
    write.abort(3)
    write.commit(2)
    write.abort(3)
    # Each ends with a marker: 0 1 (five that are none) 7 8 (and five more) 14 15.
    member = group.join("first", Scripted({"0@1": ["outage"], "0@8": ["outage", "outage"]}))
    group.wait_until_done()
    write.commit(2)
    group.wait_until_done()
    member.stop()
    assert [0, 1, 7, 8, 14, 15] == [offset for _, _, offset in group.handled()]
    assert [] == group.violations()


def test_quiet_behind_a_transaction(scene: SceneFactory) -> None:
    """A partition that ends with aborted messages, or with an open transaction, is not dead."""
    groups = [scene(config=protocol) for protocol in PROTOCOLS.values()]
    writers = [Transactions(group) for group in groups]
    for group, write in zip(groups, writers, strict=True):
        write.commit(2)
        write.abort(3)
        group.join("first", Dependency())
        group.wait_until_done()
    for write in writers:
        write.begin(2)
    _let_the_watchdog_look()
    for group, write in zip(groups, writers, strict=True):
        write.end()
        group.wait_for_attempts(4)  # "committed" is said before all of it can be read
        group.wait_until_done()
        group.end()
        assert [0, 1, 7, 8] == [offset for _, _, offset in group.handled()]
        assert [] == group.emitted(events.PartitionRevived)
        assert [] == group.violations()


@both_protocols
def test_what_nobody_could_see_is_no_loss(protocol: dict[str, str], scene: SceneFactory) -> None:
    """The end behind an aborted transaction is committed, so Kafka's own tools say that nothing is
    left. The bug: when retention removed it, the next member reported a loss, or did not start."""
    group = scene(1, config=protocol)
    write = Transactions(group)
    write.commit(2)
    first = group.join("first", Dependency())
    group.wait_until_done()
    write.abort(3)
    end = 7  # two messages, three that are none, and a marker behind each transaction
    wait_until(lambda: group.committed()[group.topic, 0] == end, "the end is committed")
    first.stop()
    group.kafka.delete_records(group.topic, 0, end)
    write.commit(1)
    second = group.join("second", Dependency(), config={"auto.offset.reset": "error"})
    group.wait_for_attempts(1, "second")
    second.stop()
    assert [] == group.emitted(events.DataLost)
    assert [] == group.violations()


def test_begins_in_a_gap(scene: SceneFactory) -> None:
    """A committed offset that is no message's: the next owner begins behind the gap."""
    group = scene()
    write = Transactions(group)
    write.commit(2)
    first = group.join("first", Dependency())
    group.wait_until_done()
    first.stop()
    write.abort(3)
    write.commit(1)
    second = group.join("second", Scripted({"0@7": ["outage"]}))
    group.wait_until_done()
    second.stop()
    assert [(group.topic, 0, 7)] == group.handled("second")
    assert [] == group.violations()


def test_compacted(kafka: RealKafka, scene: SceneFactory) -> None:
    """Compaction leaves gaps anywhere: a failed message with one behind it goes on behind it."""
    group = scene()
    group.topic = f"compacted-{group.topic}"
    kafka.create_topic(group.topic, 1, COMPACTED)
    for key in (b"a", b"b", b"b", b"b", b"c", b"b", b"c", b"c"):
        _append(group, key)
    wait_until(lambda: _compacted(group), "it is compacted", detail=lambda: _offsets(group))
    member = group.join("first", Scripted({"0@0": ["outage"], "0@5": ["outage"]}))
    group.wait_until_done()
    member.stop()
    assert [0, 5, 7] == [offset for _, _, offset in group.handled()][:3]
    assert [] == group.violations()


def _compacted(group: Scene) -> bool:
    # The newest segment is never compacted: so let there be a newer one. Of a key of its own each
    # time, or what the members have to do could still be compacted away.
    _append(group, b"d%d" % _offsets(group)[-1])
    return _offsets(group)[:3] == [0, 5, 7]


def _append(group: Scene, key: bytes) -> None:
    group.kafka.produce(group.topic, [(0, key, b"value", ())])


def _offsets(group: Scene) -> Sequence[int]:
    return group.visible()[group.topic, 0]


def _let_the_watchdog_look() -> None:
    """Until a partition that has not said that it is at its end would count as dead."""
    now_s = SystemClock().now_s
    until_s = now_s() + FIRST_TIMEOUT_S + 1
    wait_until(lambda: now_s() > until_s, "the watchdog has looked")
