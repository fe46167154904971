"""Clients meet the faults that a test orders for them."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from linear_retry.errors import BrokerError, UsageError
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S

_QUIET = {"log_level": 0, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200}


@pytest.fixture
def three() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=3) as kafka:
        kafka.create_topic("orders", 3)
        yield kafka


def _admin(kafka: EmbeddedKafka) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.bootstrap, **_QUIET})


def _consumer(kafka: EmbeddedKafka, **more: Any) -> Consumer:
    settings = {"group.id": "billing", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    return Consumer({"bootstrap.servers": kafka.bootstrap, **_QUIET, **settings, **more})


def _leaders(kafka: EmbeddedKafka) -> list[int]:
    partitions = _admin(kafka).list_topics("orders", timeout=PATIENCE_S).topics["orders"].partitions
    return [partitions[number].leader for number in sorted(partitions)]


def _commit(consumer: Consumer, offset: int) -> None:
    place = TopicPartition("orders", 0, offset)
    answers = consumer.commit(offsets=[place], asynchronous=False)
    for answer in answers or []:
        if answer.error is not None:
            raise KafkaException(answer.error)


def _code(attempt: Callable[[], object]) -> int:
    with pytest.raises(KafkaException) as caught:
        attempt()
    code: int = caught.value.args[0].code()
    return code


def test_what_is_produced_is_found(three: EmbeddedKafka) -> None:
    """`produce` writes in order to the partition it is told, and `offsets` shows what is there."""
    three.produce("orders", [b"book", "pen", None], partition=1)
    with _consumer(three) as consumer:
        consumer.assign([TopicPartition("orders", 1, 0)])
        values = [message.value() for message in consumer.consume(3, PATIENCE_S)]
    assert values == [b"book", b"pen", None]
    assert {("orders", 0): [], ("orders", 1): [0, 1, 2], ("orders", 2): []} == three.offsets(
        "orders"
    )


def test_what_is_committed_is_reported(three: EmbeddedKafka) -> None:
    """`committed` gives the partitions that the group has committed, and no others."""
    with _consumer(three) as consumer:
        _commit(consumer, 7)
    assert three.committed("billing", "orders") == {("orders", 0): 7}
    assert three.committed("nobody", "orders") == {}


def test_what_cannot_be_written_or_read_says_so(three: EmbeddedKafka) -> None:
    """A partition or topic that is not there is an error with its name."""
    with pytest.raises(BrokerError, match=r"orders\[9\]"):
        three.produce("orders", [b"book"], partition=9)
    with pytest.raises(BrokerError, match="refunds"):
        three.offsets("refunds")


def test_all_brokers_are_down_and_up_again(three: EmbeddedKafka) -> None:
    """Nobody answers within `down()`, and all answer after it."""
    admin = _admin(three)
    with three.down(), pytest.raises(KafkaException):
        admin.list_topics(timeout=0.3)
    assert "orders" in admin.list_topics(timeout=PATIENCE_S).topics


def test_one_is_down_while_all_are(three: EmbeddedKafka) -> None:
    """The end of the one brings nothing up while all are down, nor the end of all the one.

    `down(2)` within `down()` brought broker 2 up at its own end.
    """
    admin = _admin(three)
    with three.down():
        with three.down(2):
            pass
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=0.5)
    assert "orders" in admin.list_topics(timeout=PATIENCE_S).topics
    with three.down(1):
        # Not before: the first broker would tell it of the others, and those are there.
        first = AdminClient({"bootstrap.servers": three.bootstrap.split(",")[0], **_QUIET})
        with three.down():
            pass
        with pytest.raises(KafkaException):
            first.list_topics(timeout=0.5)
    assert "orders" in first.list_topics(timeout=PATIENCE_S).topics


def test_one_broker_is_down(three: EmbeddedKafka) -> None:
    """What the one leads waits for it, and what others lead goes on."""
    three.move_leader("orders", 0, 1)
    three.move_leader("orders", 1, 2)
    producer = Producer({"bootstrap.servers": three.bootstrap, **_QUIET})
    with three.down(1):
        producer.produce("orders", b"waits", partition=0)
        producer.produce("orders", b"goes on", partition=1)
        wait_until(lambda: producer.flush(0.05) == 1, "one of the two is acknowledged")
        assert producer.flush(0.3) == 1
    assert producer.flush(PATIENCE_S) == 0


def test_a_slow_broker_answers_late(three: EmbeddedKafka) -> None:
    """No answer comes before the round-trip time, and soon ones come again after it."""
    admin = _admin(three)
    admin.list_topics(timeout=PATIENCE_S)
    with three.slow(300):
        begun_s = time.monotonic()
        admin.list_topics(timeout=PATIENCE_S)
        assert time.monotonic() - begun_s >= 0.3
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=0.1)
    wait_until(lambda: _within(admin, 0.25), "an answer comes sooner than that again")


def _within(admin: AdminClient, timeout_s: float) -> bool:
    try:
        admin.list_topics(timeout=timeout_s)
    except KafkaException:
        return False
    return True


def test_every_request_of_a_kind_fails(three: EmbeddedKafka) -> None:
    """Commits are refused as ordered within `failing`, each time, and taken after it."""
    error = KafkaError.TOPIC_AUTHORIZATION_FAILED
    with _consumer(three) as consumer:
        with three.failing("OffsetCommit", error):
            for _ in range(3):
                assert _code(lambda: _commit(consumer, 1)) == error
        _commit(consumer, 2)
    assert three.committed("billing", "orders") == {("orders", 0): 2}


def test_a_broker_that_is_down_on_purpose_is_quiet(
    three: EmbeddedKafka, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nothing stands on stderr: the mock brokers' own client would tell of each connection."""
    with three.down(), pytest.raises(KafkaException):
        _admin(three).list_topics(timeout=0.5)
    assert capfd.readouterr().err == ""


def test_a_fault_ends_where_its_block_raises(three: EmbeddedKafka) -> None:
    """A test that fails within a fault leaves a healthy broker to whatever comes next."""
    with pytest.raises(ZeroDivisionError), three.down():
        _ = 1 / 0
    assert _admin(three).list_topics(timeout=PATIENCE_S)


def test_the_next_requests_fail(three: EmbeddedKafka) -> None:
    """Each error of `fail` is met once, in order; what comes next is answered well."""
    errors = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)
    with _consumer(three) as consumer:
        three.fail("OffsetCommit", *errors)
        assert tuple(_code(lambda: _commit(consumer, 1)) for _ in errors) == errors
        _commit(consumer, 2)


def test_errors_that_were_not_met_are_dropped(three: EmbeddedKafka) -> None:
    """After `clear_errors` no request fails any more, of one kind or of all."""
    error = KafkaError.TOPIC_AUTHORIZATION_FAILED
    with _consumer(three) as consumer:
        three.fail("OffsetCommit", error)
        three.clear_errors("OffsetCommit")
        three.fail("OffsetCommit", error)
        three.clear_errors()
        _commit(consumer, 1)


def test_a_leader_moves_with_its_messages(three: EmbeddedKafka) -> None:
    """Another broker leads from then on; readers and writers find it, and nothing is gone."""
    three.produce("orders", [b"book"])
    with _consumer(three) as consumer:
        consumer.assign([TopicPartition("orders", 0, 0)])
        assert consumer.poll(PATIENCE_S) is not None
        for leader in (1, 2, 3):
            three.move_leader("orders", 0, leader)
            assert _leaders(three)[0] == leader
        three.produce("orders", [b"pen"])
        message = consumer.poll(PATIENCE_S)
    assert message is not None
    assert (message.error(), message.value()) == (None, b"pen")


def test_a_reader_at_the_end_stays_there_while_leaders_change(three: EmbeddedKafka) -> None:
    """No log counts as truncated where a leader wrote nothing.

    Asked for the end of such a leader's time, the mock brokers answer -1, and librdkafka began
    again where `auto.offset.reset` says: the reader of a topic went back to its first message.
    """
    three.produce("orders", [b"book"])
    with _consumer(three) as consumer:
        _commit(consumer, 1)
    three.move_leader("orders", 0, 2)
    settings = {"enable.partition.eof": True, "topic.metadata.refresh.interval.ms": 100}
    with _consumer(three, **settings) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        assert _ends(consumer.poll(PATIENCE_S))
        with three.counting() as asked:
            three.move_leader("orders", 0, 3)
            wait_until(lambda: _polls(consumer) or asked()[3, "Fetch"] > 1, "it reads from 3")
        three.produce("orders", [b"pen"])
        message = consumer.poll(PATIENCE_S)
    assert message is not None
    assert (message.error(), message.value()) == (None, b"pen")


def _ends(message: Any) -> bool:
    return bool(message is not None and message.error().code() == KafkaError._PARTITION_EOF)


def _polls(consumer: Consumer) -> bool:
    message = consumer.poll(0.05)
    assert message is None or _ends(message), f"it went back to {message.offset()}"
    return False


def test_a_groups_coordinator_moves_with_what_it_knows(three: EmbeddedKafka) -> None:
    """Another broker answers for the group from then on, and knows what was committed."""
    with _consumer(three) as consumer:
        _commit(consumer, 5)
        for broker in (1, 2, 3):
            three.move_group_coordinator("billing", broker)
            with three.counting() as asked:
                assert three.committed("billing", "orders") == {("orders", 0): 5}
            assert (broker, "OffsetFetch") in asked()


def test_records_are_deleted(three: EmbeddedKafka) -> None:
    """What is before the offset is gone, also from the midst of what was written at once."""
    three.produce("orders", [b"%d" % number for number in range(5)])
    three.delete_records("orders", 0, 3)
    assert three.offsets("orders")["orders", 0] == [3, 4]
    three.delete_records("orders", 0, 5)
    assert three.offsets("orders")["orders", 0] == []
    with pytest.raises(BrokerError, match="before 9"):
        three.delete_records("orders", 0, 9)


def test_deleted_records_stay_deleted(three: EmbeddedKafka) -> None:
    """A lower offset than before brings nothing back: the mock brokers by themselves would."""
    three.produce("orders", [b"%d" % number for number in range(5)])
    three.delete_records("orders", 0, 4)
    three.delete_records("orders", 0, 2)
    assert three.offsets("orders")["orders", 0] == [4]


def test_a_reader_of_deleted_records_is_reported(three: EmbeddedKafka) -> None:
    """A position that is gone is out of range, as after retention on a real broker."""
    three.produce("orders", [b"book", b"pen"])
    three.delete_records("orders", 0, 1)
    with _consumer(three, **{"auto.offset.reset": "error"}) as consumer:
        consumer.assign([TopicPartition("orders", 0, 0)])
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        error = message.error()
        assert error is not None
        assert error.code() == KafkaError._AUTO_OFFSET_RESET


def test_requests_are_counted_within_the_block_only(three: EmbeddedKafka) -> None:
    """Each broker's requests are told by kind; counting again begins at nothing."""
    with three.counting() as asked:
        three.produce("orders", [b"book"])
        assert sum(times for (_, kind), times in asked().items() if kind == "Produce") == 1
    with three.counting() as asked:
        assert not [kind for _, kind in asked() if kind == "Produce"]


def test_members_of_the_new_protocol_take_their_times_from_the_broker() -> None:
    """`heartbeat_interval_ms` is what members with `group.protocol=consumer` keep."""
    with EmbeddedKafka(heartbeat_interval_ms=50) as kafka:
        kafka.create_topic("orders")
        with _consumer(kafka, **{"group.protocol": "consumer"}) as consumer:
            consumer.subscribe(["orders"])
            with kafka.counting() as asked:
                wait_until(
                    lambda: (
                        consumer.poll(0.05) is None and asked()[1, "ConsumerGroupHeartbeat"] > 5
                    ),
                    "six heartbeats, which would take 15 s at the default",
                )


def test_a_silent_member_of_the_new_protocol_is_out_after_its_session() -> None:
    """`session_timeout_ms` after a member vanished, another has what was its."""
    with EmbeddedKafka(session_timeout_ms=500, heartbeat_interval_ms=100) as kafka:
        kafka.create_topic("orders")
        kafka.produce("orders", [b"book"])
        settings = {"group.protocol": "consumer"}
        vanishing = _consumer(kafka, **settings)
        vanishing.subscribe(["orders"])
        assert vanishing.poll(PATIENCE_S) is not None
        with _consumer(kafka, **settings) as heir:
            heir.subscribe(["orders"])
            assert heir.poll(1.0) is None
            del vanishing  # without a goodbye
            assert heir.poll(PATIENCE_S) is not None


@pytest.mark.parametrize("broker", [0, 4, -1])
def test_a_broker_that_is_not_there_is_refused(three: EmbeddedKafka, broker: int) -> None:
    """librdkafka would take some of these, and crash at the next request, or never answer one."""
    orders: list[Callable[[], object]] = [
        lambda: three.move_leader("orders", 0, broker),
        lambda: three.move_group_coordinator("billing", broker),
        lambda: ExitStack().enter_context(three.down(broker)),
        lambda: ExitStack().enter_context(three.slow(10, broker)),
    ]
    for order in orders:
        with pytest.raises(UsageError, match="write 1 to 3"):
            order()


def test_a_topic_that_is_not_there_has_no_leader_and_no_records(three: EmbeddedKafka) -> None:
    """The error says what could not be done, in librdkafka's words."""
    with pytest.raises(BrokerError, match=r"refunds\[0\].*Unknown topic"):
        three.delete_records("refunds", 0, 0)
    with pytest.raises(BrokerError, match=r"orders\[9\]"):
        three.move_leader("orders", 9, 1)
