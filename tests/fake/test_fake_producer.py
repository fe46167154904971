"""The fake producer and its faults do what they say."""

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # exported by import only

from tests.fake.clients import P0, five_messages, joined, noting, place
from tests.fake.cluster import FakeKafka


@pytest.fixture
def fake() -> FakeKafka:
    return five_messages()


def test_report_takes_time(fake: FakeKafka) -> None:
    """The report, and the record, come when the delivery's time has passed."""
    fake.faults.delivery_s = 0.25
    producer, reports = fake.producer({}), []
    producer.produce("orders", b"v", partition=1, on_delivery=lambda *one: reports.append(one))
    assert 0 == producer.poll(0.2)
    assert 0 == fake.topics["orders"].partitions[1].end
    assert 1 == producer.poll(0.2)
    assert 1 == fake.topics["orders"].partitions[1].end


@pytest.mark.parametrize(
    ("topic", "code"),
    [("orders", KafkaError._MSG_TIMED_OUT), ("not-there", KafkaError._UNKNOWN_TOPIC)],
)
def test_failed_delivery(fake: FakeKafka, topic: str, code: int) -> None:
    """A failed delivery is only in the report; a missing topic takes 30 seconds."""
    fake.faults.fail_delivery(KafkaError._MSG_TIMED_OUT)
    producer, codes = fake.producer({}), list[int | None]()
    producer.produce(topic, b"v", on_delivery=noting(codes))
    producer.flush(31)
    assert [code] == codes


def test_ambiguous_timeout(fake: FakeKafka) -> None:
    """A delivery slower than its timeout is reported as failed, and the record is there."""
    fake.faults.delivery_s = 20
    producer, codes = fake.producer({"message.timeout.ms": 10_000}), list[int | None]()
    producer.produce("orders", b"v", partition=1, on_delivery=noting(codes))
    producer.flush(30)
    assert [KafkaError._MSG_TIMED_OUT] == codes
    assert 1 == fake.topics["orders"].partitions[1].end


def test_too_large_for_topic(fake: FakeKafka) -> None:
    """What passes the producer's limit and not the topic's fails in the report."""
    fake.create_topic("small", config={"max.message.bytes": "1000"})
    producer, codes = fake.producer({}), list[int | None]()
    producer.produce("small", b"v" * 1000, on_delivery=noting(codes))
    producer.flush(1)
    assert [KafkaError.MSG_SIZE_TOO_LARGE] == codes


def test_purge(fake: FakeKafka) -> None:
    """Purged records are reported so, and are not there."""
    fake.faults.delivery_s = 5
    producer, codes = fake.producer({}), list[int | None]()
    producer.produce("orders", b"v", on_delivery=noting(codes))
    producer.purge()
    assert 1 == producer.poll(10)
    assert [KafkaError._PURGE_QUEUE] == codes


def test_raising_produce(fake: FakeKafka) -> None:
    """`produce` raises what is set, as often."""
    fake.faults.raise_in_produce(BufferError("Local: Queue full"))
    producer = fake.producer({})
    with pytest.raises(BufferError):
        producer.produce("orders", b"v")
    producer.produce("orders", b"v")
    assert 0 == producer.flush(1)


def test_delivery_that_lands(fake: FakeKafka) -> None:
    """Reported as failed, and there."""
    fake.faults.fail_delivery(KafkaError._MSG_TIMED_OUT, lands=True)
    producer, codes = fake.producer({}), list[int | None]()
    producer.produce("orders", b"v", partition=1, on_delivery=noting(codes))
    producer.flush(1)
    assert ([KafkaError._MSG_TIMED_OUT], 1) == (codes, fake.topics["orders"].partitions[1].end)


@pytest.mark.parametrize("lands", [False, True])
def test_lost_report(fake: FakeKafka, lands: bool) -> None:
    """Nothing is reported, whether it is there or not, until it is purged."""
    fake.faults.lose_report(lands=lands)
    producer, codes = fake.producer({}), list[int | None]()
    producer.produce("orders", b"v", partition=1, on_delivery=noting(codes))
    assert 1 == producer.flush(600)
    assert ([], int(lands)) == (codes, fake.topics["orders"].partitions[1].end)
    producer.purge()
    producer.poll(0)
    assert [KafkaError._PURGE_QUEUE] == codes


def test_broken_producer(fake: FakeKafka) -> None:
    """A fatal error: raised in a poll or a flush, in the report, and by every later `produce`."""
    received: list[KafkaError] = []
    producer, codes = fake.producer({"error_cb": received.append}), list[int | None]()
    fatal = KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "out of order", True)
    fake.faults.break_producer(fatal)
    producer.produce("orders", b"v", on_delivery=noting(codes))
    with pytest.raises(KafkaException, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
        producer.flush(1)
    producer.flush(1)
    assert ([], [KafkaError._FATAL]) == (received, codes)
    with pytest.raises(KafkaException, match="_FATAL"):
        producer.produce("orders", b"v")
    fake.producer({}).produce("orders", b"v", on_delivery=noting(codes))


def test_broken_transactional_producer(fake: FakeKafka) -> None:
    """Its transaction cannot even be aborted."""
    producer = fake.producer({"transactional.id": "one"})
    producer.init_transactions()
    producer.begin_transaction()
    fake.faults.break_producer(KafkaError(KafkaError._FENCED, "fenced", True))
    producer.produce("orders", b"v")
    with pytest.raises(KafkaException, match="_FENCED"):
        producer.abort_transaction()


@pytest.mark.parametrize("succeeded", [False, True])
def test_late_offset(fake: FakeKafka, succeeded: bool) -> None:
    """A request that was given up arrives later, in the next transaction of the same producer; but
    not once another has its id."""
    consumer = joined(fake, P0)
    consumer.poll(0)
    producer = fake.producer({"transactional.id": "one"})
    producer.init_transactions()
    timed_out = KafkaError(KafkaError._TIMED_OUT, "timed out", False, True)
    fake.faults.fail_transaction("send_offsets", timed_out, lands_s=5.0)
    producer.begin_transaction()
    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        producer.send_offsets_to_transaction([place(P0, 1)], consumer.consumer_group_metadata())
    producer.abort_transaction()
    if succeeded:
        producer = fake.producer({"transactional.id": "one"})
        producer.init_transactions()
    producer.begin_transaction()
    fake.clock.advance(6)
    producer.commit_transaction()
    assert ({} if succeeded else {P0: 1}) == fake.group("group")


@pytest.mark.parametrize("down", [False, True])
def test_unanswered_admin(fake: FakeKafka, down: bool) -> None:
    """Every question is answered, if only by that there was no answer in time."""
    fake.faults.brokers_down = down
    fake.faults.admin_answer_s = 0.0 if down else None
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the client has no types for it
    (future,) = fake.admin({}).list_offsets({place(P0): latest}).values()
    assert not future.done()
    fake.clock.advance(10)
    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        future.result()


def test_name_that_ends_the_process(fake: FakeKafka) -> None:
    """The real `produce` does, for a header named so: here it is an error that nobody catches."""
    with pytest.raises(AssertionError, match="ends the process"):
        fake.producer({}).produce("orders", b"v", headers=[("\ud800", b"1")])
