"""What a task sends, and what becomes of messages that their destination does not take."""

import json
from functools import partial

import pytest

from linear_retry.errors import BrokerError
from linear_retry.kafka.consumer.messages import read
from linear_retry.kafka.producers.murmur2 import partition_of_key
from linear_retry.records.dead_letter import parse
from linear_retry.records.text import Header
from linear_retry.spark.scheduler.held import Held
from linear_retry.spark.scheduler.producer import TaskProducer
from linear_retry.spark.scheduler.sender import Sender, Sent, Targets, Undelivered, letter_of
from linear_retry.store import header_bytes
from tests.conftest import TopicFactory
from tests.real_kafka import RealKafka, free_ports
from tests.spark.scheduler.partly import TIMED_OUT, partly_stuck

_SIZES = ("1100000", "20000", "1200000")
_HEADERS: tuple[Header, ...] = (("retry-destination", b"x"), ("trace", None), ("trace", b"1"))


def _held(
    topic: str, number: int, value: bytes | None = b"v", *, partition: int | None = None
) -> Held:
    content = header_bytes.write(_HEADERS)
    return Held(number, number, 0, topic, partition, b"key", value, content)


def _targets(bootstrap: str, letters: str) -> Targets:
    return Targets({"bootstrap.servers": bootstrap}, "intake", letters)


@pytest.mark.broker
def test_what_is_not_taken(kafka: RealKafka, topic: TopicFactory) -> None:
    """A record that is too large is dead, and not those beside it; a partition that is not there
    is the key's."""
    letters, small = topic(), topic(1, {"max.message.bytes": "20000"})
    messages = [
        *(_held(small, n, b"x" * 5_000, partition=7) for n in range(4)),
        _held(small, 4, b"x" * 40_000),
        _held(small, 5, None),
    ]
    sent = Sender(_targets(kafka.bootstrap, letters)).send(messages)
    assert (5, 1, ()) == (sent.messages, sent.letters, sent.undelivered)
    assert sent.problem is not None
    assert sent.problem.startswith(f"{small}: ")
    found = [read(each) for each in kafka.read(small)]
    assert [b"x" * 5_000] * 4 + [None] == [each.value for each in found]
    assert {_HEADERS} == {each.headers for each in found}
    (letter,) = map(read, kafka.read(letters))
    headers = dict(letter.headers)
    assert b"too-large" == headers["retry-reason"]
    assert (headers["retry-id"] or b"").startswith(b"scheduler/intake/0/4/")
    assert b"x" * 40_000 == letter.value


def test_a_drained_message_keeps_its_time() -> None:
    """Letters of a drained state did not say when their messages were to be sent."""
    held = Held(2**41, 7, 0, "orders", None, b"key", b"value", header_bytes.write(()))
    for reason, retry_at_ms in (("drained", 2**41), ("refused", None)):
        (record, _) = letter_of(held._replace(reason=reason), "billing.scheduled", "lost")
        assert retry_at_ms == parse(record.headers, record.key, record.value).retry_at_ms


def test_without_a_broker() -> None:
    """Nothing is dead because nobody answers: the micro-batch fails, and is repeated."""
    (port,) = free_ports(1)
    with pytest.raises(BrokerError, match="no broker answers"):
        Sender(_targets(f"127.0.0.1:{port}", "letters"), partial(TaskProducer, answer_s=0.5)).send(
            [_held("orders", 1)]
        )


@pytest.mark.broker
def test_a_topic_that_takes_less_than_a_batch(kafka: RealKafka, topic: TopicFactory) -> None:
    """Brokers refuse a batch as a whole: a record dies only if it is refused alone, and those that
    were beside it are sent in their order."""
    letters, small = topic(), topic(1, {"max.message.bytes": "10000"})
    messages = [_held(small, n, b"x" * (12_000 if n == 3 else 4_000 + n)) for n in range(8)]
    sent = Sender(_targets(kafka.bootstrap, letters)).send(messages)
    assert (7, 1, ()) == (sent.messages, sent.letters, sent.undelivered)
    values = [each.value for each in messages if each is not messages[3]]
    assert values == [each.value() for each in kafka.read(small)]
    assert [messages[3].value] == [each.value() for each in kafka.read(letters)]


@pytest.mark.broker
def test_a_partition_without_a_leader(kafka: RealKafka, topic: TopicFactory) -> None:
    """Its messages are to be sent again, and hold nobody else's back, even where there are no
    others at the moment; later ones wait for them and are not attempted, other partitions' are."""
    stuck, other = topic(2), topic()
    number, timed_out = partition_of_key(b"key", 2), f"{stuck}: {TIMED_OUT}"
    sender = partly_stuck(_targets(kafka.bootstrap, "letters"), {stuck})
    first = _held(stuck, 1)
    undelivered = (Undelivered(first, (stuck, number), timed_out),)
    assert Sent(0, 0, undelivered, timed_out) == sender.send([first])
    assert Sent(1, 0, undelivered, timed_out) == sender.send([first, _held(other, 2)])
    later = _held(stuck, 3, partition=number)
    elsewhere = _held(stuck, 4, partition=1 - number)
    sent = sender.send([later, elsewhere, _held(other, 5)], {(stuck, number)})
    behind = f"{stuck}: its partition has not acknowledged an earlier one"
    assert {
        Undelivered(later, (stuck, number), behind),
        Undelivered(elsewhere, (stuck, 1 - number), timed_out),
    } == set(sent.undelivered)
    assert 1 == sent.messages


@pytest.mark.broker
def test_a_letter_that_is_too_large(kafka: RealKafka, topic: TopicFactory) -> None:
    """It is sent as a reference to the record in the scheduler's topic, and those beside it as they
    are: the task does not fail, nor is it repeated."""
    letters, orders = topic(1, {"max.message.bytes": "10000"}), topic()
    dead = [
        _held("missing", n, b"x" * size)._replace(reason="not-allowed", error="no --allow")
        for n, size in enumerate((4_000, 4_000, 40_000, 4_000))
    ]
    sent = Sender(_targets(kafka.bootstrap, letters)).send([*dead, _held(orders, 9)])
    assert (1, 4, ()) == (sent.messages, sent.letters, sent.undelivered)
    found = {}
    for each in map(read, kafka.read(letters)):
        letter = parse(each.headers, each.key, each.value)
        found[letter.retry_id.rpartition("/")[0]] = letter
    assert {f"scheduler/intake/0/{n}" for n in range(4)} == found.keys()
    reference = found.pop("scheduler/intake/0/2")
    assert {b"x" * 4_000} == {each.value for each in found.values()}
    assert ("reference", "not-allowed") == (reference.oversized, reference.reason)
    envelope = json.loads(reference.value or b"")
    assert ("intake", 0, 2) == (envelope["topic"], envelope["partition"], envelope["offset"])
    assert 40_000 == envelope["value"]["bytes"]


@pytest.mark.broker
def test_letters_that_are_not_acknowledged(kafka: RealKafka, topic: TopicFactory) -> None:
    """They are to be sent again, as letters, and hold back letters alone; the task goes on."""
    letters, stuck = topic(), set[str]()
    stuck.add(letters)
    dead, message = _held("missing", 1), _held(topic(), 2)
    sender = partly_stuck(_targets(kafka.bootstrap, letters), stuck)
    sent = sender.send([dead, message])
    assert (1, 0) == (sent.messages, sent.letters)
    (unsent,) = sent.undelivered
    assert ((letters, 0), "unknown-topic") == (unsent.lane, unsent.message.reason)
    assert f"{letters}: {TIMED_OUT}" == sent.problem
    behind = sender.send([unsent.message, message], {(letters, 0)})
    assert (1, 0) == (behind.messages, behind.letters)
    assert [unsent.message] == [each.message for each in behind.undelivered]
    stuck.clear()
    again = sender.send([unsent.message])
    assert (0, 1, ()) == (again.messages, again.letters, again.undelivered)
    reasons = [dict(read(each).headers)["retry-reason"] for each in kafka.read(letters)]
    assert [b"unknown-topic"] == reasons


@pytest.mark.broker
@pytest.mark.parametrize("most_bytes", ["100", None])
def test_letters_that_are_not_taken(
    kafka: RealKafka, topic: TopicFactory, most_bytes: str | None
) -> None:
    """Neither a dead-letter topic that takes nothing, nor one that is missing, fails the task or
    holds anything back."""
    letters = "nowhere" if most_bytes is None else topic(1, {"max.message.bytes": most_bytes})
    sent = Sender(_targets(kafka.bootstrap, letters)).send([_held("missing", 1), _held(topic(), 2)])
    assert (1, 0) == (sent.messages, sent.letters)
    (unsent,) = sent.undelivered
    assert (None, "unknown-topic") == (unsent.lane, unsent.message.reason)
    assert sent.problem is not None
    assert sent.problem.startswith(f"{letters}: ")


@pytest.mark.broker
def test_a_record_of_more_than_a_megabyte(kafka: RealKafka, topic: TopicFactory) -> None:
    """A topic takes somewhat more than librdkafka does by default: it is sent, or dead, but does
    not fail the micro-batch for ever."""
    large, small, letters = (topic(1, {"max.message.bytes": each}) for each in _SIZES)
    value = b"x" * 1_040_000
    sent = Sender(_targets(kafka.bootstrap, letters)).send(
        [_held(large, 1, value), _held(small, 2, value)]
    )
    assert (1, 1, ()) == (sent.messages, sent.letters, sent.undelivered)
    assert [[value]] * 2 == [[each.value() for each in kafka.read(n)] for n in (large, letters)]
