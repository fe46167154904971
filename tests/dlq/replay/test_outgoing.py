"""A replayed message is the message as it was, with what a consumer needs to know of it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.dlq.letters.letter import Letter, read_letter
from linear_retry.dlq.replay.outgoing import (
    NotReplayableError,
    Outgoing,
    largest_packed,
    outgoing,
    place_of,
    unpacked,
)
from linear_retry.records.dead_letter import (
    FailureInfo,
    parse,
    reference,
    to_dead_letter,
)
from linear_retry.records.lineage import Line, foreign_group
from linear_retry.records.record import Record
from linear_retry.records.retry_headers import HEADER_NAMES, NO_OFFSET
from linear_retry.records.text import Header
from tests.dlq.sample_letters import CONTENT, RECORDS, REPLAYED, TEXT, our_letter, our_record

_FAILURE = FailureInfo("billing", "exhausted", 2, 5, 6, "short-outage@0123456789ab")
_SPRING: tuple[Header, ...] = (
    ("tenant", b"acme"),
    ("kafka_dlt-original-topic", b"orders"),
    ("kafka_dlt-original-partition", (3).to_bytes(4)),
    ("kafka_dlt-original-offset", (1042).to_bytes(8)),
    ("kafka_dlt-original-timestamp", (1_700_000_000_000).to_bytes(8)),
    ("kafka_dlt-original-consumer-group", b"billing"),
    ("kafka_dlt-exception-fqcn", b"java.lang.IllegalStateException"),
)


def _gone(*_: object) -> Record | None:
    return None


def _sent(letter: Letter) -> Outgoing:
    return outgoing(letter, "run-1", _gone)


def _again(letter: Letter, offset: int, topic: str = "orders") -> Record:
    """The replayed message, as a consumer reads it."""
    sent = _sent(letter)
    return Record(topic, 3, offset, 9, sent.key, sent.value, tuple(sent.headers))


def test_the_headers_of_a_replayed_message() -> None:
    """Its own in order, then who it is, then which replay sent it."""
    assert Outgoing(b"ann", b"book", list(REPLAYED), 1795253536817) == _sent(our_letter(7))


@given(CONTENT, CONTENT, st.lists(st.tuples(TEXT, CONTENT), max_size=5))
def test_key_value_and_own_headers_are_as_they_were(
    key: bytes | None, value: bytes | None, own: list[Header]
) -> None:
    """Byte for byte, null and empty distinguished; names of the user's that look like ours stay."""
    own = [header for header in [*own, ("retry-foo", b"1")] if header[0] not in HEADER_NAMES]
    sent = _sent(our_letter(key=key, value=value, headers=tuple(own)))
    assert (key, value, own) == (sent.key, sent.value, sent.headers[: len(own)])
    assert {name for name, _ in sent.headers[len(own) :]} < HEADER_NAMES


def test_what_dies_again_is_the_next_generation() -> None:
    """The same id, destination and original place; nothing of ours piles up; and so on."""
    letter = our_letter(7)
    for generation in range(2, 6):
        died = to_dead_letter(_again(letter, 100 * generation), _FAILURE)
        assert ("billing/orders/3/7/158a9adb838c", generation) == (
            died.retry_id,
            died.generation,
        )
        assert ("orders", 3, 7) == (
            died.destination,
            died.original_partition,
            died.original_offset,
        )
        assert (("tenant", b"acme"),) == died.original_headers
        headers = tuple(died.headers())
        letter = read_letter(Record("orders.dlq", 0, generation, 9, b"ann", b"book", headers))
        count = dict(_sent(letter).headers)["retry-replay-count"]
        assert b"%d" % generation == count


def test_another_group_passes_it_over_where_it_first_was() -> None:
    """And nowhere else; the group that it is for gets it everywhere."""
    letter = our_letter(7)
    assert "billing" == foreign_group(_again(letter, 99), Line("audit"))
    assert foreign_group(_again(letter, 99), Line("billing")) is None
    assert foreign_group(_again(letter, 99, topic="orders.retry"), Line("audit")) is None


@given(RECORDS)
def test_any_record_can_be_sent_or_is_left(record: Record) -> None:
    """Whatever lies in the topic: nothing else is raised, and what is sent can be kept."""
    try:
        sent = _sent(read_letter(record))
    except NotReplayableError:
        assert dict(record.headers).keys() & {"retry-oversized", "__dlq.errors.topic"}
        return
    packed = sent.packed(4, 2**40)
    assert (4, 2**40) == place_of(packed)
    assert sent == unpacked(packed)
    output = dict(sent.headers)
    assert b"run-1" == output["retry-replay-id"]


@given(RECORDS, st.integers(0, 400))
def test_no_packed_message_is_shorter_than_what_it_stands_for(record: Record, limit: int) -> None:
    """So what is not longer than the limit's packed form needs no closer look."""
    try:
        sent = _sent(read_letter(record))
    except NotReplayableError:
        return
    packed = sent.packed(record.partition, record.offset)
    assert len(packed) > largest_packed(limit) or sent.size_bytes() <= limit


def test_headers_of_another_system_are_not_sent() -> None:
    """A letter of Spring's goes back as it came, and who it is follows from where it lay."""
    letter = read_letter(Record("orders.DLT", 1, 5, 9, b"k", b"v", _SPRING))
    sent = _sent(letter)
    expected = {
        "tenant": b"acme",
        "retry-id": b"foreign/orders.DLT/1/5/f902b67fca1e",
        "retry-generation": b"1",
        "retry-destination": b"orders",
        "retry-original-partition": b"3",
        "retry-original-offset": b"1042",
        "retry-original-timestamp-ms": b"1700000000000",
        "retry-group-id": b"billing",
        "retry-replay-id": b"run-1",
        "retry-replay-count": b"1",
    }
    assert expected == dict(sent.headers)
    died = to_dead_letter(Record("orders", 3, 2000, 9, b"k", b"v", tuple(sent.headers)), _FAILURE)
    assert ("foreign/orders.DLT/1/5/f902b67fca1e", 2, 1042) == (
        *(died.retry_id, died.generation, died.original_offset),
    )


@pytest.mark.parametrize("headers", [_SPRING, _SPRING[:1]], ids=["a letter", "no letter"])
def test_springs_attempts_begin_at_the_first_again(headers: tuple[Header, ...]) -> None:
    """The bug: with the counter of Spring's retry topics the attempts went on at the last one."""
    attempts: tuple[Header, ...] = (
        ("retry_topic-attempts", (4).to_bytes(4)),
        ("retry_topic-original-timestamp", (9).to_bytes(8)),
        ("retry_topic-backoff-timestamp", (9).to_bytes(8)),
    )
    letter = read_letter(Record("orders.DLT", 1, 5, 9, b"k", b"v", (*headers, *attempts)))
    names = {name for name, _ in _sent(letter).headers}
    assert "tenant" in names
    assert set() == {name for name in names if name.startswith("retry_topic-")}


_SHARE_GROUP: tuple[Header, ...] = (
    ("__dlq.errors.topic", b"orders"),
    ("__dlq.errors.partition", b"3"),
    ("__dlq.errors.offset", b"1042"),
    ("__dlq.errors.group", b"billing"),
    ("__dlq.errors.delivery.count", b"5"),
    ("__dlq.errors.message", b"Offset rejected by client."),
)


def test_a_letter_of_a_share_group_is_no_tombstone() -> None:
    """The bug: by default it has neither key nor value, and was sent as it lay."""
    letter = read_letter(Record("orders.dlq", 1, 5, 9, None, None, _SHARE_GROUP))
    assert ("kafka-share-group", "billing") == (letter.format, letter.group_id)
    with pytest.raises(NotReplayableError, match="without the message's key and value"):
        _sent(letter)


def test_a_letter_of_a_share_group_with_its_message_goes_back() -> None:
    """With errors.deadletterqueue.copy.record.enable=true it has them."""
    sent = _sent(read_letter(Record("orders.dlq", 1, 5, 9, b"ann", None, _SHARE_GROUP)))
    assert (b"ann", None) == (sent.key, sent.value)
    assert b"1042" == dict(sent.headers)["retry-original-offset"]
    assert not any(name.startswith("__dlq") for name, _ in sent.headers)


def test_a_message_that_was_never_read_there_has_no_place() -> None:
    """That of a drained store comes with its id alone, to every group, as a message of its own."""
    ours = our_record(7)
    never = ("retry-original-offset", str(NO_OFFSET).encode())
    headers = tuple(never if name == never[0] else (name, value) for name, value in ours.headers)
    letter = read_letter(replace(ours, headers=headers))
    sent = dict(_sent(letter).headers)
    assert {"retry-id", "retry-replay-id", "retry-replay-count"} == HEADER_NAMES & sent.keys()
    assert foreign_group(_again(letter, 99), Line("audit")) is None
    died = to_dead_letter(_again(letter, 99), _FAILURE)
    assert ("orders", 3, 99) == (died.destination, died.original_partition, died.original_offset)


def test_nobody_passes_over_what_was_replayed_for_a_group_that_is_not_known() -> None:
    """A letter that does not name its group goes to all of them."""
    headers = tuple(h for h in _SPRING if "group" not in h[0])
    letter = read_letter(Record("orders.DLT", 1, 5, 9, b"k", b"v", headers))
    assert foreign_group(_again(letter, 99), Line("audit")) is None


def test_names_that_were_escaped_are_passed_on() -> None:
    """The consumer's next letter still knows that these names were others."""
    headers = (("caf%E9", b"1"), ("tenant", b"acme"))
    record = replace(our_record(7, headers=headers), escaped_headers=())
    written = (*record.headers, ("retry-escaped-headers", b"caf%E9,gone"))
    sent = _sent(read_letter(replace(record, headers=written)))
    assert b"caf%E9" == dict(sent.headers)["retry-escaped-headers"]
    now = _sent(read_letter(replace(record, escaped_headers=("tenant",))))
    assert b"tenant" == dict(now.headers)["retry-escaped-headers"]
    died = to_dead_letter(Record("orders", 3, 99, 9, b"k", b"v", tuple(sent.headers)), _FAILURE)
    assert ("caf%E9",) == died.escaped_headers


def _reference(original: Record) -> Letter:
    envelope = reference(to_dead_letter(original, _FAILURE), original)
    headers = tuple(envelope.headers())
    return read_letter(Record("orders.dlq", 0, 1, 9, envelope.key, envelope.value, headers))


_ORIGINAL = Record("orders", 3, 7, 5, b"ann", b"book" * 500, (("tenant", b"acme"),))


def test_of_a_reference_the_message_itself_is_sent() -> None:
    """Fetched from where it was read; the envelope is not sent in its stead."""
    asked = []

    def fetch(*place: object) -> Record:
        asked.append(place)
        return _ORIGINAL

    sent = outgoing(_reference(_ORIGINAL), "run-1", fetch)
    assert [("orders", 3, 7)] == asked
    assert (b"ann", b"book" * 500, ("tenant", b"acme")) == (sent.key, sent.value, sent.headers[0])
    assert "retry-oversized" not in dict(sent.headers)
    assert b"billing/orders/3/7/eafc4dc2fd4d" == dict(sent.headers)["retry-id"]


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (None, "is gone"),
        (replace(_ORIGINAL, value=b"book"), "has replaced"),
        (replace(_ORIGINAL, key=None), "has replaced"),
        (replace(_ORIGINAL, value=None), "has replaced"),
    ],
)
def test_a_reference_to_what_is_gone_is_left(found: Record | None, why: str) -> None:
    """Also where another message lies there: a topic that was deleted and made again."""
    with pytest.raises(NotReplayableError, match=why):
        outgoing(_reference(_ORIGINAL), "run-1", lambda *_: found)


@pytest.mark.parametrize(
    "value", [None, b"", b"{", b"[]", b'{"topic": 1}', b"[" * 10_000, b"{}"], ids=repr
)
def test_a_garbled_reference_is_left(value: bytes | None) -> None:
    """It is never sent as if it were the message."""
    with pytest.raises(NotReplayableError, match="unreadable"):
        outgoing(_reference(_ORIGINAL)._replace(value=value), "run-1", lambda *_: _ORIGINAL)


def test_an_unknown_form_of_a_large_letter_is_left() -> None:
    """A later version may write one."""
    record = our_record(7)
    headers = (*record.headers, ("retry-oversized", b"chunked"))
    with pytest.raises(NotReplayableError, match="chunked"):
        _sent(read_letter(replace(record, headers=headers)))


def test_what_is_no_dead_letter_has_no_identity() -> None:
    """Sent to a topic of the user's choice it is a new message, which some replay has sent."""
    letter = read_letter(Record("orders.dlq", 1, 5, 9, b"k", b"v", (("a", b"1"),)))
    expected = [("a", b"1"), ("retry-replay-id", b"run-1"), ("retry-replay-count", b"1")]
    assert expected == _sent(letter).headers


def test_a_replayed_message_is_no_dead_letter() -> None:
    """Where one comes to lie in a dead-letter topic, it is not taken for a letter."""
    with pytest.raises(Exception, match="retry-reason is missing"):
        parse(_sent(our_letter(7)).headers, b"", b"")


@pytest.mark.parametrize(
    ("for_group", "topic", "expected"),
    [
        (None, "orders", "billing"),
        ("invoices", "orders", "invoices"),
        ("", "orders", ""),
        (None, "orders.retry", ""),
        ("invoices", "orders.retry", ""),
    ],
)
def test_whom_it_is_for(for_group: str | None, topic: str, expected: str) -> None:
    """In its source topic one group, unless all are meant; in another whoever reads that."""
    assert expected == outgoing(our_letter(7), "run-1", _gone, for_group).group_in(topic)


def test_what_is_for_every_group_has_no_group_in_its_id() -> None:
    """Each group that fails gives it an id of its own, with the place and the next generation."""
    sent = outgoing(our_letter(7), "run-1", _gone, "")
    assert dict(sent.headers).keys().isdisjoint({"retry-id", "retry-group-id"})
    record = Record("orders", 3, 99, 9, sent.key, sent.value, tuple(sent.headers))
    letters = [
        to_dead_letter(record, FailureInfo(name, "x", 1, 1, 2, "s@1")) for name in ("audit", "b")
    ]
    assert [(f"{name}/orders/3/7/158a9adb838c", 2, "orders", 3, 7) for name in ("audit", "b")] == [
        (
            *(each.retry_id, each.generation, each.destination),
            *(each.original_partition, each.original_offset),
        )
        for each in letters
    ]
