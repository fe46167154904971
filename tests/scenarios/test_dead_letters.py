"""A dead letter is the message that failed, and says why."""

import pytest

from linear_retry import events
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import read
from linear_retry.records.lineage import record_id
from linear_retry.records.retry_headers import HEADER_NAMES
from tests.conftest import TopicFactory
from tests.kafka_operations import Record
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import PoisonError, Scripted

pytestmark = pytest.mark.broker

_RECORDS: list[Record] = [
    (0, b"key", b"value", [("trace", b"7"), ("trace", b"8"), ("empty", b""), ("none", None)]),
    (0, b"\xff\x00", b"\xfe" * 300, []),
    (0, b"", b"", [("retry-foo", b"the user's"), ("\N{SNOWMAN}", "\N{SNOWMAN}".encode())]),
    (0, None, None, []),
    (0, b"tombstone", None, [("retry-reason", b"an earlier death's")]),
]


def _refuse(message: Message) -> None:
    raise PoisonError(f"offset {message.offset()}")


def test_the_message_byte_for_byte(scene: SceneFactory) -> None:
    """Key, value and headers are the message's; a tombstone stays one, and empty stays empty."""
    group = scene()
    group.write(_RECORDS)
    member = group.join("first", _refuse)
    group.wait_until_done()
    member.stop()
    letters = group.dead_letters()
    assert [(key, value) for _, key, value, _ in _RECORDS] == [(x.key, x.value) for x in letters]
    foreign = [[h for h in headers if h[0] not in HEADER_NAMES] for _, _, _, headers in _RECORDS]
    assert foreign == [list(letter.original_headers) for letter in letters]
    for message in group.kafka.read(group.letters):
        names = [name for name, _ in read(message).headers]
        ours = [name for name in names if name in HEADER_NAMES]
        assert len(set(ours)) == len(ours)
        assert names[len(names) - len(ours) :] == ours
    assert [] == group.violations()


def test_what_it_says(scene: SceneFactory) -> None:
    """Where the message came from, why and when it died, of what, and after how many failures."""
    group = scene(strategy=[0.1, 0.1])
    group.produce(2)
    member = group.join("first", Scripted({"0@1": ["outage"] * 3}))
    group.wait_until_done()
    member.stop()
    (letter,) = group.dead_letters()
    sent, source = group.kafka.read(group.letters)[0], group.kafka.read(group.topic)[1]
    born_ms = source.timestamp()[1]
    assert f"{group.group}/{record_id(read(source))}" == letter.retry_id
    assert (group.topic, 0, 1, born_ms) == (
        letter.destination,
        letter.original_partition,
        letter.original_offset,
        letter.original_timestamp_ms,
    )
    assert ("exhausted", 3, 1) == (letter.reason, letter.failures, letter.generation)
    assert (group.group, "dead-letter") == (letter.group_id, letter.send_to)
    assert letter.strategy.startswith("inline@")
    assert letter.error is not None
    assert "tests.scenarios.handlers.OutageError" == letter.error.type
    assert "0@1" == letter.error.message
    assert "handlers.py" in (letter.error.stack or "")
    # Its own timestamp is the time of sending: retention goes by it.
    times = [letter.original_timestamp_ms, letter.first_failure_ms, letter.last_failure_ms]
    assert sorted(times) == times
    assert letter.last_failure_ms <= sent.timestamp()[1]
    assert [letter.retry_id] == [event.retry_id for event in group.emitted(events.DeadLettered)]
    assert [] == group.violations()


def test_fewer_partitions(scene: SceneFactory, topic: TopicFactory) -> None:
    """Where it does not, the key decides, as Kafka's own clients have it."""
    group = scene(4)
    letters = topic(2)
    # murmur2 of the key, from UtilsTest of kafka-clients, without its sign, of two partitions.
    partition_of = {b"21": (-973932308 & 0x7FFFFFFF) % 2, b"abc": 479470107 % 2}
    for key in partition_of:
        group.produce(2, partition=3, key=key)
    member = group.join("first", _refuse, dead_letters=letters)
    group.wait_until_done()
    member.stop()
    messages = group.kafka.read(letters)
    assert 4 == len(messages)
    assert partition_of == {message.key(): message.partition() for message in messages}
    assert [] == group.violations()
