"""What a task sends, and what becomes of messages that their destination does not take."""

from typing import Any

import pytest

from linear_retry.errors import BrokerError
from linear_retry.kafka import KafkaError, Producer
from linear_retry.kafka.consumer.messages import read
from linear_retry.kafka.producers.murmur2 import partition_of_key
from linear_retry.records.text import Header
from linear_retry.spark.scheduler.held import Held
from linear_retry.spark.scheduler.sender import Sender, Sent, Targets
from linear_retry.store import header_bytes
from tests.conftest import TopicFactory
from tests.real_kafka import RealKafka, free_ports

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
    assert (b"too-large", b"intake[0]@4") == (headers["retry-reason"], headers["retry-id"])
    assert b"x" * 40_000 == letter.value


def test_without_a_broker() -> None:
    """Nothing is dead because nobody answers: the micro-batch fails, and is repeated."""
    (port,) = free_ports(1)
    with pytest.raises(BrokerError, match="no broker answers"):
        Sender(_targets(f"127.0.0.1:{port}", "letters"), answer_s=0.5).send([_held("orders", 1)])


class _WithoutLeader:
    """A producer for which the topic `stuck` has no leader, so that its records time out."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._producer = Producer(config)
        self.attempts = list[bytes]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def produce(self, topic: str, value: Any, key: Any, **more: Any) -> None:
        if topic == "stuck":
            self.attempts.append(key)
            more["on_delivery"](KafkaError(KafkaError._MSG_TIMED_OUT), None)
        else:
            self._producer.produce(topic, value, key, **more)


@pytest.mark.broker
def test_a_partition_without_a_leader(kafka: RealKafka, topic: TopicFactory) -> None:
    """Its messages are to be sent again, and hold nobody else's back, even where there are no
    others at the moment; later ones do not wait for it again, and other partitions' do not either.
    """
    kafka.create_topic("stuck", 2)
    stuck, other = _held("stuck", 1), _held(topic(), 2)
    made = list[_WithoutLeader]()

    def make(config: dict[str, Any]) -> _WithoutLeader:
        made.append(_WithoutLeader(config))
        return made[0]

    sender = Sender(_targets(kafka.bootstrap, "letters"), make)
    timed_out = "stuck: Local: Message timed out (_MSG_TIMED_OUT)"
    assert Sent(0, 0, (stuck,), timed_out) == sender.send([stuck])
    explicit = _held("stuck", 3, partition=partition_of_key(b"key", 2))
    assert Sent(1, 0, (stuck, explicit), timed_out) == sender.send([stuck, other, explicit])
    elsewhere = stuck._replace(key=b"elsewhere", to_partition=1 - partition_of_key(b"key", 2))
    sender.send([elsewhere])
    assert [b"key", b"elsewhere"] == made[0].attempts


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
