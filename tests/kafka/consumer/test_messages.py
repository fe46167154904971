"""Every message is read without harm, and what was read can be sent."""

from collections.abc import Iterator, Sequence
from operator import methodcaller
from typing import Any

import pytest
from confluent_kafka import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from linear_retry.errors import DeadLetterError
from linear_retry.kafka.consumer.messages import (
    foreign_group,
    foreign_or_unfit,
    have_no_headers,
    make_safe,
    read,
    read_fresh,
    size_bytes,
    written,
)
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from linear_retry.records.dead_letter import FailureInfo, to_dead_letter
from linear_retry.records.lineage import Line
from linear_retry.records.record import Record
from linear_retry.records.text import Header, sendable
from tests.kafka.pipe import Pipe, RawProducer

_CREATE_TIME = 1

_name = st.text() | st.text(st.characters(categories=["Cs", "L", "Cc"])) | st.binary()
_value = st.none() | st.binary() | st.text() | st.integers() | st.binary().map(bytearray)
_headers = st.lists(st.tuples(_name, _value), max_size=100)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as broker:
        yield broker


@pytest.fixture(scope="module")
def pipe(broker: EmbeddedKafka) -> Iterator[Pipe]:
    pipe = Pipe(broker)
    yield pipe
    pipe.close()


@pytest.fixture(scope="module")
def raw(broker: EmbeddedKafka) -> Iterator[RawProducer]:
    producer = RawProducer(broker.bootstrap)
    yield producer
    producer.close()


def _poisoned(raw: RawProducer, pipe: Pipe, *headers: tuple[bytes, bytes]) -> Message:
    raw.send(pipe.topic, list(headers))
    return pipe.received()


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(headers=_headers)
def test_what_is_sendable_arrives_as_it_was_sent(
    pipe: Pipe, headers: list[tuple[object, object]]
) -> None:
    """Any headers, made sendable, go through a producer and a consumer without any change."""
    kept, _ = sendable(headers)
    record = read(pipe.through(list(kept)))
    assert (kept, ()) == (record.headers, record.escaped_headers)


def test_a_message_is_read(pipe: Pipe) -> None:
    """Coordinates, time, key, value and headers of a message are in its record, in order."""
    headers: list[Header] = [("b", b"1"), ("a", b"\xff\0"), ("b", None), ("", b"")]
    message = pipe.through(headers)
    offset, (kind, timestamp_ms) = message.offset(), message.timestamp()
    assert offset is not None
    assert _CREATE_TIME == kind
    partition = message.partition()
    assert partition is not None
    expected = Record(pipe.topic, partition, offset, timestamp_ms, b"ann", b"book", tuple(headers))
    assert expected == read(message)


@pytest.mark.parametrize("timestamp_ms", [-1, 0, 1_795_000_000_000])
@pytest.mark.parametrize("headers", [(), (("b", b"1"), ("a", None))])
def test_what_is_written_is_read(timestamp_ms: int, headers: tuple[Header, ...]) -> None:
    """A message that is made of a record is read as that record."""
    record = Record("orders", 3, 7, timestamp_ms, b"ann", None, headers)
    assert record == read(written(record))


def test_a_message_without_a_time_has_minus_one() -> None:
    """Where Kafka kept no timestamp, the record says -1 and not 1970."""
    assert -1 == read(_message(timestamp=(0, 0))).timestamp_ms


def test_no_headers_are_none(pipe: Pipe) -> None:
    """A message without headers has none, and belongs to no foreign group."""
    message = _message(headers=None)
    assert (None, ()) == (foreign_group(message, Line("g")), read(message).headers)


def test_one_name_that_is_not_utf8_costs_nothing(raw: RawProducer, pipe: Pipe) -> None:
    """Where one name is not UTF-8 it is escaped and named, and all other headers are kept."""
    record = read(_poisoned(raw, pipe, (b"a", b"1"), (b"b\xff", b"2"), (b"c", b"3")))
    assert (("a", b"1"), ("b%FF", b"2"), ("c", b"3")) == record.headers
    assert ("b%FF",) == record.escaped_headers


def test_of_several_such_names_the_values_stay(raw: RawProducer, pipe: Pipe) -> None:
    """Where more names are not UTF-8, their values and all other headers are kept, in order."""
    record = read(_poisoned(raw, pipe, (b"\xfe", b"1"), (b"b", b"2"), (b"\xff", b"3")))
    assert (("*unreadable*", b"1"), ("b", b"2"), ("*unreadable*", b"3")) == record.headers
    assert ("*unreadable*", "*unreadable*") == record.escaped_headers


def test_the_size_has_key_and_headers(raw: RawProducer, pipe: Pipe) -> None:
    """Nulls count nothing, and an unreadable name as it is escaped, however often it is asked."""
    assert 0 == size_bytes(Message(topic="orders"))
    headers: list[tuple[str, Any]] = [("ab", b"123"), ("c", None)]
    assert 3 + 4 + 6 == size_bytes(Message(key=b"key", value=b"four", headers=headers))
    poisoned = _poisoned(raw, pipe, (b"b\xff", b"22"))
    plain = len(poisoned) + len(poisoned.key() or b"")
    assert [plain + 6, plain + 6] == [size_bytes(poisoned), size_bytes(poisoned)]


def test_reading_again_gives_the_same(raw: RawProducer, pipe: Pipe) -> None:
    """What was escaped is known on every reading, and not escaped twice."""
    message = _poisoned(raw, pipe, (b"b\xff%", b"2"))
    assert foreign_group(message, Line("g")) is None
    first = read(message)
    assert (("b%FF%25",), first) == (first.escaped_headers, read(message))


@pytest.mark.parametrize("bad_at", [(), (0,), (2,), (4,), (0, 4), (1, 2, 3)])
def test_one_look_for_a_batch(raw: RawProducer, pipe: Pipe, bad_at: tuple[int, ...]) -> None:
    """Looking at a batch's headers raises nothing, then or later, and leaves sound ones behind."""
    batch = [
        _poisoned(raw, pipe, (b"b\xff", b"2")) if at in bad_at else pipe.through([])
        for at in range(5)
    ]
    assert have_no_headers(batch) == (not bad_at)
    seen = [read(message).headers for message in batch]
    names = {name for headers in seen for name, _ in headers}
    assert [at in bad_at for at in range(5)] == [headers != () for headers in seen]
    assert names <= {"b%FF", "*unreadable*"}
    assert names != {"*unreadable*"} or len(bad_at) > 1


def test_a_batch_with_headers(pipe: Pipe) -> None:
    """One message with a header is enough to look at each."""
    assert not have_no_headers([pipe.through([]), pipe.through([("a", b"1")])])


def test_the_handler_gets_sound_headers(raw: RawProducer, pipe: Pipe) -> None:
    """After us, a handler's own `headers()` is a list that can be looked at and sent."""
    message = _poisoned(raw, pipe, (b"a", b"1"), (b"b\xff", b"2"))
    make_safe(message)
    headers = message.headers()
    assert [("a", b"1"), ("b%FF", b"2")] == headers
    assert read(pipe.through(list(read(message).headers))).headers == read(message).headers


def test_a_handler_that_swallowed_the_error_does_no_harm(raw: RawProducer, pipe: Pipe) -> None:
    """The list with a null pointer, which a first `headers()` leaves behind, is read safely."""
    message = _poisoned(raw, pipe, (b"a", b"1"), (b"b\xff", b"2"))
    with pytest.raises(SystemError):
        methodcaller("headers")(message)
    record = read(message)
    assert (("a", b"1"), ("*unreadable*", b"2")) == record.headers


def test_the_error_does_not_leak_from_a_hot_line(raw: RawProducer, pipe: Pipe) -> None:
    """Bug: in a hot loop CPython let the client's exception out at some later line."""
    sound = [_message(headers=[("a", b"1")]) for _ in range(200)]
    messages = [*sound, _poisoned(raw, pipe, (b"\xff", b"1")), *sound]
    names = [read(message).headers[0][0] for message in messages]
    assert [*["a"] * 200, "%FF", *["a"] * 200] == names


def test_a_letter_of_any_message_can_be_sent(raw: RawProducer, pipe: Pipe) -> None:
    """The letter of a message with unreadable names goes through Kafka and says so."""
    record = read(_poisoned(raw, pipe, (b"\xff", b"1"), (b"\xff\0", b"2")))
    letter = to_dead_letter(record, FailureInfo("g", "exhausted", 1, 1, 1, "s@1"))
    assert tuple(letter.headers()) == read(pipe.through(letter.headers())).headers
    assert ("retry-escaped-headers", b"*unreadable*") in letter.headers()


@pytest.mark.parametrize(
    ("put", "expected"),
    [
        ([["a", b"1"], "c"], (("a", b"1"), ("*unreadable*", b"c"))),
        ([("b",)], (("*unreadable*", b"('b',)"),)),
        (7, (("*unreadable*", b"7"),)),
    ],
)
def test_whatever_a_handler_put_there_is_read(put: object, expected: tuple[Header, ...]) -> None:
    """`set_headers` takes anything at all; what it took becomes headers that can be sent."""
    message = _message()
    message.set_headers(put)  # type: ignore[arg-type]  # what a handler may do, and no type keeps it from
    assert expected == read(message).headers


@pytest.mark.parametrize("put", [{"decoded": 1}, "text", 7])
def test_a_value_that_the_handler_replaced_is_refused(put: object) -> None:
    """A letter without what came from Kafka is a loss: an error names the place and the remedy."""
    message = _message()
    message.set_value(put)
    with pytest.raises(DeadLetterError, match=r"orders\[0\]@7: value is .*set_value"):
        read(message)


def test_a_foreign_replay_is_known_by_its_headers() -> None:
    """The group that a replayed message is meant for comes out of a confluent_kafka message."""
    headers = [
        ("retry-replay-id", b"r"),
        ("retry-group-id", b"billing"),
        ("retry-destination", b"orders"),
    ]
    message = _message(headers=headers)
    assert ("billing", None) == (
        foreign_group(message, Line("shipping")),
        foreign_group(message, Line("billing")),
    )


class _LaterLibrary(Message):
    """A client library that refuses headers on every call."""

    def headers(self) -> None:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")


def test_headers_that_cannot_be_read_at_all_are_reported_lost() -> None:
    """Where the client gives no list even at the second call, one header says that."""
    message = _LaterLibrary(topic="orders", partition=0, offset=7)
    record = read(message)
    assert ((("*unreadable*", None),), ("*unreadable*",)) == (
        record.headers,
        record.escaped_headers,
    )


def _message(
    headers: Sequence[Header] | None = None, timestamp: tuple[int, int] = (1, 5)
) -> Message:
    message = Message(topic="orders", partition=0, offset=7, timestamp=timestamp)
    if headers is not None:
        message.set_headers([*headers])
    return message


def test_a_topic_that_is_named_like_a_retry_topic_has_no_retries() -> None:
    """`r.60s` matches what a retry line subscribes to: attempted at once it would be too early."""
    line = Line("billing", {"r.1m": 60_000}.get)
    message = Message(topic="r.60s", partition=0, offset=7, value=b"v")
    found = foreign_or_unfit(message, line)
    assert isinstance(found, DeadLetterError)
    assert "r.60s[0]@7" in str(found)


def test_a_message_that_was_made_safe_is_read_fresh(raw: RawProducer, pipe: Pipe) -> None:
    """The consumer looks at headers before the handler does: what it had to escape is still listed
    for who reads the message fast."""
    message = _poisoned(raw, pipe, (b"bad\xff", b"1"), (b"good", b"2"))
    assert foreign_group(message, Line("g")) is None
    assert read(message) == read_fresh(message)
    assert ("bad%FF",) == read_fresh(message).escaped_headers
