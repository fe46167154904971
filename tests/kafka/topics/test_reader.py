"""A topic is read to the end that was known, whatever is in it and happens to it."""

import gc
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from linear_retry.errors import BrokerError, ConfigurationError, UnknownTopicError
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from linear_retry.kafka.quiet import QUIET
from linear_retry.kafka.topics import standalone_consumer
from linear_retry.kafka.topics.reader import TopicReader, consume_available
from linear_retry.kafka.topics.standalone_consumer import StandaloneConsumer
from linear_retry.kafka.topics.tail import TopicTail
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka

_IMPATIENCE_S = 1.0
# Little at a time, so that most is still to be fetched when the first batch is there.
_SIPPING = {
    "max.partition.fetch.bytes": 1000,
    "fetch.max.bytes": 1000,
    "message.max.bytes": 1000,
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 1,
}


def _reader(kafka: RealKafka, **more: Any) -> TopicReader:
    return TopicReader(kafka.client_settings(**more))


def _values(kafka: RealKafka, topic: str) -> list[bytes | None]:
    return [record.value for record in chain.from_iterable(_reader(kafka).read(topic))]


def _fill(kafka: RealKafka, topic: str, count: int, partition: int = 0, size: int = 1) -> None:
    kafka.produce(topic, [(partition, None, b"%d" % n * size, ()) for n in range(count)])


def _fill_in_small_batches(kafka: RealKafka, topic: str, count: int) -> None:
    """Else all would come in one: a broker gives a batch whole, however little was asked for."""
    producer = Producer(kafka.client_settings(**{"batch.num.messages": 20}))
    for number in range(count):
        producer.produce(topic, b"%d" % number * 30, partition=0)
    assert 0 == producer.flush(PATIENCE_S)


@pytest.fixture
def writer(kafka: RealKafka) -> Iterator[Producer]:
    """A producer with transactions."""
    producer = Producer(kafka.client_settings(**{"transactional.id": f"writer-{time.time_ns()}"}))
    producer.init_transactions(20)
    yield producer
    producer.flush(PATIENCE_S)


@pytest.mark.broker
def test_each_partition_is_read_in_order(kafka: RealKafka, topic: TopicFactory) -> None:
    """All of them, each from its beginning to its end; an empty one is none to wait for."""
    name = topic(4)
    for partition, count in ((0, 30), (1, 1), (3, 500)):
        _fill(kafka, name, count, partition)
    found: dict[int, list[int]] = {}
    for record in chain.from_iterable(_reader(kafka).read(name)):
        found.setdefault(record.partition, []).append(record.offset)
    assert {0: list(range(30)), 1: [0], 3: list(range(500))} == found
    assert (0, 1, 2, 3) == _reader(kafka).partitions(name)
    assert {0: (0, 30), 1: (0, 1), 2: (0, 0), 3: (0, 500)} == _reader(kafka).bounds(name)


@pytest.mark.broker
def test_a_record_is_what_it_was(kafka: RealKafka, topic: TopicFactory) -> None:
    """Key, value, headers and time; null is not empty."""
    name = topic()
    headers = (("a", b"\xff"), ("a", None), ("é", b""))
    kafka.produce(name, [(0, b"k", None, headers), (0, None, b"", ())])
    ((first, second),) = _reader(kafka).read(name)
    assert (b"k", None, headers, ()) == (
        first.key,
        first.value,
        first.headers,
        first.escaped_headers,
    )
    assert (None, b"", ()) == (second.key, second.value, second.headers)
    assert abs(first.timestamp_ms - time.time() * 1000) < 60_000


@pytest.mark.broker
def test_what_transactions_leave_at_the_end(
    kafka: RealKafka, topic: TopicFactory, writer: Producer
) -> None:
    """Markers and aborted records lie behind the last message, and nobody ever sees them.

    A reader that waits for the offset before the end would wait for ever.
    """
    name = topic()
    for value in (b"kept", b"aborted"):
        writer.begin_transaction()
        writer.produce(name, value, partition=0)
        writer.flush(PATIENCE_S)
        if value == b"kept":
            writer.commit_transaction(20)
        else:
            writer.abort_transaction(20)
    assert [b"kept"] == _values(kafka, name)


@pytest.mark.broker
def test_an_open_transaction_is_not_waited_for(
    kafka: RealKafka, topic: TopicFactory, writer: Producer
) -> None:
    """What is not committed is not there: the end is before it, and the reader ends."""
    name = topic()
    _fill(kafka, name, 2)
    writer.begin_transaction()
    writer.produce(name, b"open", partition=0)
    writer.flush(PATIENCE_S)
    _fill(kafka, name, 1)
    assert [b"0", b"1"] == _values(kafka, name)
    writer.abort_transaction(20)
    assert [b"0", b"1", b"0"] == _values(kafka, name)


@pytest.mark.broker
def test_only_aborted_records(kafka: RealKafka, topic: TopicFactory, writer: Producer) -> None:
    """A partition that has offsets and no message ends too."""
    name = topic()
    writer.begin_transaction()
    writer.produce(name, b"aborted", partition=0)
    writer.flush(PATIENCE_S)
    writer.abort_transaction(20)
    assert [] == _values(kafka, name)


@pytest.mark.broker
def test_the_holes_of_compaction(kafka: RealKafka, topic: TopicFactory) -> None:
    """What was compacted away is no reason to wait."""
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "100",
    }
    name = topic(1, config)
    kafka.produce(name, [(0, b"same", b"%d" % number, ()) for number in range(20)])

    def is_compacted() -> bool:
        kafka.produce(name, [(0, b"other", b"", ())])  # closes the segment before
        return len(_values(kafka, name)) < 20

    wait_until(is_compacted, "compaction has been at work")
    assert b"19" in _values(kafka, name)
    assert b"0" not in _values(kafka, name)


@pytest.mark.broker
def test_retention_takes_the_head_meanwhile(kafka: RealKafka, topic: TopicFactory) -> None:
    """What is removed while it is being read is not there: the reader goes on with what is left."""
    name = topic()
    _fill_in_small_batches(kafka, name, 2000)
    batches = _reader(kafka, **_SIPPING).read(name)
    first = next(batches)
    assert len(first) < 1000
    kafka.delete_records(name, 0, 1990)
    rest = [record.offset for record in chain.from_iterable(batches)]
    assert list(range(1990, 2000)) == [offset for offset in rest if offset >= 1990]
    assert len(first) + len(rest) < 2000


@pytest.mark.broker
def test_retention_takes_everything_meanwhile(kafka: RealKafka, topic: TopicFactory) -> None:
    """Then the end that was known is behind all there is, and nothing is waited for."""
    name = topic()
    _fill_in_small_batches(kafka, name, 2000)
    batches = _reader(kafka, **_SIPPING).read(name)
    first = next(batches)
    kafka.delete_records(name, 0, 2000)
    assert len(first) + len(list(chain.from_iterable(batches))) < 2000


@pytest.mark.broker
def test_what_is_written_meanwhile_is_left(kafka: RealKafka, topic: TopicFactory) -> None:
    """A reader ends however fast others write: its end is the one at its beginning."""
    name = topic(2)
    for partition in (0, 1):
        _fill(kafka, name, 500, partition, size=100)
    batches = _reader(kafka, **_SIPPING).read(name)
    found = next(batches)
    _fill(kafka, name, 300, 0, size=100)
    found += chain.from_iterable(batches)
    assert [*range(500), *range(500)] == [
        record.offset for record in sorted(found, key=lambda each: (each.partition, each.offset))
    ]


@pytest.mark.broker
def test_some_partitions_from_an_offset(kafka: RealKafka, topic: TopicFactory) -> None:
    """`starts` says which and where from; what retention has removed is not there."""
    name = topic(3)
    for partition in (0, 1, 2):
        _fill(kafka, name, 10, partition)
    kafka.delete_records(name, 2, 7)
    found = chain.from_iterable(_reader(kafka).read(name, starts={0: 8, 2: 3}))
    assert [(0, 8), (0, 9), (2, 7), (2, 8), (2, 9)] == sorted(
        (record.partition, record.offset) for record in found
    )


@pytest.mark.broker
def test_progress_reaches_its_end(kafka: RealKafka, topic: TopicFactory) -> None:
    """It grows from batch to batch, and the last one says that all is behind."""
    name = topic(2)
    _fill(kafka, name, 700, 0, size=50)
    _fill(kafka, name, 300, 1, size=50)
    reported: list[tuple[int, int]] = []
    reader = _reader(kafka, **_SIPPING)
    for _ in reader.read(name, lambda done, total: reported.append((done, total))):
        assert reported == sorted(reported)
    assert (1000, 1000) == reported[-1]


@pytest.mark.broker
def test_nobody_notices(kafka: RealKafka, topic: TopicFactory) -> None:
    """No group comes into being, whoever's `group.id` is in the configuration."""
    name = topic()
    _fill(kafka, name, 3)
    for _ in _reader(kafka, **{"group.id": "notices", "enable.auto.commit": True}).read(name):
        assert [] == kafka.group_members("notices")
    assert {} == kafka.committed("notices", name)


@pytest.mark.broker
def test_there_is_no_such_topic(kafka: RealKafka) -> None:
    """It is reported, and none comes into being, though the brokers make topics by themselves."""
    with pytest.raises(UnknownTopicError, match="topic 'gone' does not exist; check its name"):
        list(_reader(kafka).read("gone"))
    with pytest.raises(UnknownTopicError):
        _reader(kafka).bounds("gone")


@pytest.mark.broker
@pytest.mark.parametrize("name", ["a b", "a/b", "ä", "x" * 300, ".."])
def test_no_topic_can_have_that_name(kafka: RealKafka, name: str) -> None:
    """It is reported at once, and not waited for."""
    with pytest.raises(BrokerError, match="is refused: Broker: Invalid topic"):
        _reader(kafka).partitions(name)


def test_no_broker_answers() -> None:
    """It ends in bounded time, and says whom it asked."""
    reader = TopicReader({"bootstrap.servers": "127.0.0.1:1"}, timeout_s=_IMPATIENCE_S)
    with pytest.raises(BrokerError, match="no answer about topic 'orders' within 1 s"):
        list(reader.read("orders"))


def test_the_brokers_go_away_meanwhile() -> None:
    """A reader that is in the middle ends in bounded time too."""
    with EmbeddedKafka() as kafka:
        kafka.create_topic("orders")
        kafka.produce("orders", [b"x" * 100_000] * 40)  # ten of them are a batch
        keys = {"bootstrap.servers": kafka.bootstrap} | _SIPPING
        batches = TopicReader(keys, timeout_s=_IMPATIENCE_S).read("orders")
        next(batches)
        with kafka.down(), pytest.raises(BrokerError, match="no answer about topic 'orders'"):
            list(batches)


def test_a_topic_without_a_leader_for_a_moment() -> None:
    """What passes by itself is waited for."""
    with EmbeddedKafka() as kafka:
        kafka.create_topic("orders")
        kafka.produce("orders", [b"x"])
        kafka.fail("ListOffsets", KafkaError.NOT_LEADER_FOR_PARTITION)
        kafka.fail("Metadata", KafkaError.LEADER_NOT_AVAILABLE)
        found = TopicReader({"bootstrap.servers": kafka.bootstrap}).read("orders")
        assert [b"x"] == [record.value for record in chain.from_iterable(found)]


def test_a_key_that_librdkafka_does_not_know() -> None:
    """It is named, before anything is asked of a broker."""
    with pytest.raises(ConfigurationError, match='No such configuration property: "nothing"'):
        TopicReader({"bootstrap.servers": "h:1", "nothing": "x"}).partitions("orders")


def test_librdkafka_writes_nothing_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """At `log_level` 0 its fatal errors went to stderr all the same, between a command's lines."""
    seen: dict[str, Any] = {}
    monkeypatch.setattr(
        standalone_consumer, "Consumer", lambda keys: seen.update(keys) or Consumer(keys)
    )
    with closing(StandaloneConsumer({"bootstrap.servers": "127.0.0.1:9"}, 0.1)):
        assert {name: QUIET[name] for name in ("log_level", "logger")} == {
            name: seen[name] for name in ("log_level", "logger")
        }


def _clients() -> int:
    return sum(isinstance(each, Consumer) for each in gc.get_objects())


def test_a_closed_client_does_not_wait_for_the_garbage_collector() -> None:
    """Each held one of 1,024 keys of its process: who looked at many topics soon had none left."""
    with EmbeddedKafka() as kafka:
        kafka.create_topic("orders")
        kafka.produce("orders", [b"1"])
        config = {"bootstrap.servers": kafka.bootstrap}
        reader, tail = TopicReader(config), TopicTail(config, "orders", 0)
        gc.collect()
        before = _clients()
        gc.disable()
        try:
            assert 1 == len(reader.read_all("orders"))
            assert {0: (0, 1)} == reader.bounds("orders")
            with tail.follow():
                tail.read(0)
            assert before == _clients()
        finally:
            gc.enable()


def test_ctrl_c_within_a_callback_is_ctrl_c() -> None:
    """While brokers are away it comes amid librdkafka's error callback: `watch` ended with a
    traceback of a SystemError now and then, and exit code 1."""

    class Interrupted:
        def consume(self, *_: object) -> Any:
            raise SystemError("returned NULL without setting an exception")

    with pytest.raises(KeyboardInterrupt):
        consume_available(cast(Any, Interrupted()), 0.1)
