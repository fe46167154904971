"""The journal's records are written in order, without waiting, and what is lost is counted."""

from typing import Any

from confluent_kafka import KafkaError, KafkaException

from linear_retry.kafka.producers.journal import JournalProducer, journal_config
from linear_retry.records.record import OutgoingRecord
from tests.fake.cluster import FakeKafka
from tests.fake.producer import FakeProducer

_TOPIC = "journal"


class _Scene:
    """One such producer on a fake Kafka; its records are numbers."""

    def __init__(self, config: dict[str, Any] | None = None, *, exists: bool = True) -> None:
        self.fake = FakeKafka()
        if exists:
            self.fake.create_topic(_TOPIC)
        keys = journal_config({"bootstrap.servers": "fake:9092"}, config or {})
        self.producer = JournalProducer(keys, self.fake.clock.now_s, self.fake.producer)
        self._sent = 0

    def send(self, count: int = 1) -> None:
        for _ in range(count):
            value = b"%d" % self._sent
            self.producer.send(
                OutgoingRecord(_TOPIC, b"key", value, timestamp_ms=self.fake.clock.utc_ms())
            )
            self._sent += 1

    def later(self, seconds: float) -> None:
        self.fake.clock.advance(seconds)

    def written(self) -> list[int]:
        records = self.fake.topics[_TOPIC].partitions[0].records
        return [int(record.value) for record in records if record.value is not None]

    @property
    def made(self) -> list[FakeProducer]:
        return self.fake.producers


def test_records_are_written_in_order() -> None:
    """What is handed over is in the topic, in order, and nothing is dropped."""
    scene = _Scene()
    scene.send(100)
    scene.later(1)
    assert (list(range(100)), 0) == (scene.written(), scene.producer.dropped)


def test_sending_takes_no_time() -> None:
    """Whether brokers answer or not, the clock stands still."""
    scene = _Scene()
    scene.fake.faults.brokers_down = True
    began_s = scene.fake.clock.now_s()
    scene.send(5_000)
    assert began_s == scene.fake.clock.now_s()


def test_what_waits_is_bounded() -> None:
    """Of 5000 records that nobody takes 1000 wait, and the others are dropped at once."""
    scene = _Scene()
    scene.fake.faults.brokers_down = True
    scene.send(5_000)
    assert (4_000, 1_000) == (scene.producer.dropped, sum(map(len, scene.made)))
    assert "its queue is full" == scene.producer.trouble


def test_a_short_outage_loses_nothing() -> None:
    """A producer that sees its brokers again sends what waits, in order."""
    scene = _Scene()
    scene.fake.faults.delivery_s = 40.0
    scene.send(3)
    scene.later(50)
    scene.fake.faults.delivery_s = 0.0
    scene.send(3)
    scene.later(1)
    assert (list(range(6)), 0) == (scene.written(), scene.producer.dropped)


def test_a_producer_whose_deliveries_time_out_is_replaced() -> None:
    """librdkafka #5301: it may never find its brokers again. What still waits goes along."""
    scene = _Scene()
    scene.fake.faults.brokers_down = True
    scene.send(2)
    scene.later(30)
    scene.send(3)
    scene.later(31)
    scene.fake.faults.brokers_down = False
    scene.send(1)
    scene.later(1)
    assert ([2, 3, 4, 5], 2, 2) == (scene.written(), scene.producer.dropped, len(scene.made))


def test_it_is_replaced_at_most_every_30_seconds() -> None:
    """Each has threads and connections of its own: a long outage must not make thousands."""
    scene = _Scene({"message.timeout.ms": 1_000})
    scene.fake.faults.brokers_down = True
    for _ in range(300):
        scene.send()
        scene.later(1)
    assert 300 / 30 - 1 <= len(scene.made) <= 300 / 30 + 1


def test_a_topic_that_is_made_later_is_found() -> None:
    """A producer believes for minutes that a missing topic is missing: a new one looks again."""
    scene = _Scene(exists=False)
    scene.send()
    scene.later(31)
    scene.fake.create_topic(_TOPIC)
    scene.send()
    scene.later(1)
    assert ([1], 1, 2) == (scene.written(), scene.producer.dropped, len(scene.made))


def test_a_record_that_is_too_large_is_no_reason_for_another_producer() -> None:
    """It is dropped and counted, and the others go on."""
    scene = _Scene()
    scene.producer.send(OutgoingRecord(_TOPIC, b"key", b"x" * 2_000_000))
    scene.send(2)
    scene.later(1)
    assert ([0, 1], 1, 1) == (scene.written(), scene.producer.dropped, len(scene.made))


def test_what_produce_raises_is_counted() -> None:
    """A producer that is broken for good is replaced by the next record."""
    scene = _Scene()
    error = KafkaException(KafkaError(KafkaError._FATAL, "broken", True))
    scene.fake.faults.raise_in_produce(error)
    scene.send(2)
    scene.later(1)
    assert ([1], 1, 2) == (scene.written(), scene.producer.dropped, len(scene.made))


def test_a_producer_that_cannot_be_made_is_made_later() -> None:
    """Where the process has no threads or files left, the record is dropped, and nothing raised."""
    scene = _Scene()
    refusals = [KafkaException(KafkaError(KafkaError._CRIT_SYS_RESOURCE, "no thread"))]

    def make(config: dict[str, Any]) -> FakeProducer:
        if refusals:
            raise refusals.pop()
        return scene.fake.producer(config)

    producer = JournalProducer({}, scene.fake.clock.now_s, make)
    for value in (b"0", b"1"):
        producer.send(OutgoingRecord(_TOPIC, b"key", value))
    producer.flush(1.0)
    assert ([1], 1) == (scene.written(), producer.dropped)


def test_a_report_that_never_comes_holds_nothing_up() -> None:
    """It counts as waiting until the end, and is dropped then."""
    scene = _Scene()
    scene.fake.faults.lose_report()
    scene.send(2)
    scene.later(1)
    scene.producer.flush(1.0)
    assert ([1], 1) == (scene.written(), scene.producer.dropped)


def test_flush_waits_for_what_is_on_its_way() -> None:
    """Everything is in the topic when it returns."""
    scene = _Scene()
    scene.fake.faults.delivery_s = 0.5
    scene.send(10)
    scene.producer.flush(2.0)
    assert (list(range(10)), 0) == (scene.written(), scene.producer.dropped)


def test_flush_is_bounded() -> None:
    """What nobody takes until then is dropped, with the reason that was there before."""
    scene = _Scene()
    scene.fake.faults.brokers_down = True
    scene.send(10)
    scene.made[0].fail(KafkaError(KafkaError._TRANSPORT, "connection refused"))
    began_s = scene.fake.clock.now_s()
    scene.producer.flush(2.0)
    assert 2.0 == scene.fake.clock.now_s() - began_s
    assert (10, "connection refused") == (scene.producer.dropped, scene.producer.trouble)


def test_flush_with_nothing_sent_does_nothing() -> None:
    """A consumer that never said anything needs no producer to end."""
    scene = _Scene()
    scene.producer.flush(2.0)
    assert [] == scene.made


def test_the_users_keys_win() -> None:
    """Brokers and security are the consumer's, unless the journal has its own."""
    keys = journal_config(
        {"bootstrap.servers": "one:9092", "client.id": "billing"},
        {"bootstrap.servers": "two:9092", "linger.ms": 100},
    )
    expected = {"bootstrap.servers": "two:9092", "client.id": "billing", "linger.ms": 100}
    assert expected.items() <= keys.items()
