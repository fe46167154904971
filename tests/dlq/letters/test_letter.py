"""Every record of a dead-letter topic is read as what it is."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.dlq.letters.foreign import Origin
from linear_retry.dlq.letters.letter import EVERYTHING, Filter, Letter, State, read_letter
from linear_retry.errors import DeadLetterError
from linear_retry.records.dead_letter import DeadLetter, parse
from linear_retry.records.record import Record
from linear_retry.records.retry_headers import NO_OFFSET, NO_PARTITION
from linear_retry.records.text import ErrorText
from tests.dlq.sample_letters import RECORDS, our_letter, our_record, our_records

_SPRING = (
    ("kafka_dlt-original-topic", b"payments"),
    ("kafka_dlt-original-partition", b"\0\0\0\x02"),
    ("kafka_dlt-original-offset", b"\0\0\0\0\0\0\0\x07"),
)


def _parsed(record: Record) -> DeadLetter | str:
    try:
        return parse(record.headers, record.key, record.value)
    except DeadLetterError as error:
        return str(error)


@given(RECORDS)
def test_whatever_lies_there_is_read(record: Record) -> None:
    """No record raises; what came stays as it came, and says which system wrote it."""
    letter = read_letter(record)
    kept = (letter.topic, letter.partition, letter.offset, letter.timestamp_ms)
    assert (record.topic, record.partition, record.offset, record.timestamp_ms) == kept
    assert (record.key, record.value, record.headers) == (letter.key, letter.value, letter.headers)
    assert letter.format in (
        "linear-retry",
        "spring-kafka",
        "kafka-connect",
        "kafka-share-group",
        "none",
    )
    assert (letter.format == "none") <= (letter.problem is not None and letter.origin is None)


@given(our_records() | RECORDS)
def test_ours_say_what_the_parser_reads(record: Record) -> None:
    """Of ours, each field is what the one parser of the package reads."""
    letter = read_letter(record, formats=())
    parsed = _parsed(record)
    if isinstance(parsed, str):
        assert ("none", parsed) == (letter.format, letter.problem)
        return
    assert ("linear-retry", None) == (letter.format, letter.problem)
    assert (parsed.retry_id, parsed.generation) == (letter.id, letter.generation)
    assert letter.origin == Origin(
        parsed.destination,
        None if parsed.original_partition == NO_PARTITION else parsed.original_partition,
        None if parsed.original_offset == NO_OFFSET else parsed.original_offset,
        parsed.original_timestamp_ms,
    )
    assert (parsed.group_id, parsed.reason) == (letter.group_id, letter.reason)
    assert parsed.failures == letter.failures
    error_text = parsed.error or ErrorText("", None, None)
    assert (error_text.type or None, error_text.message, error_text.stack) == (
        letter.exception_type,
        letter.exception_message,
        letter.exception_stack,
    )


def test_a_message_without_a_partition() -> None:
    """One that the scheduler was to send by its key has no partition, and no offset there."""
    ours = our_record(7)
    none = {
        "retry-original-partition": b"2147483647",
        "retry-original-offset": b"9223372036854775807",
    }
    headers = tuple((name, none.get(name, value)) for name, value in ours.headers)
    letter = read_letter(replace(ours, headers=headers))
    assert letter.origin is not None
    assert ("orders", None, None) == letter.origin[:3]


def test_an_id_is_of_the_letter_or_of_what_is_at_its_place() -> None:
    """`retry-id` where we wrote it, else what lies where; and the generation."""
    ours = read_letter(our_record(7))
    other = read_letter(Record("orders.dlq", 2, 5, -1, None, b"x"))
    assert "billing/orders/3/7/158a9adb838c#1" == ours.resolution_key
    assert "foreign/orders.dlq/2/5/7286a3ce201d#1" == other.resolution_key


def test_a_record_that_is_no_dead_letter_says_why() -> None:
    """Nothing is thrown away: it is a letter without an origin, and with the reason."""
    letter = read_letter(Record("orders.dlq", 2, 5, -1, None, b"x"))
    assert ("none", None) == (letter.format, letter.origin)
    assert letter.problem is not None
    assert "retry-id is missing" in letter.problem


@pytest.mark.parametrize(
    ("ours_first", "expected"), [(True, "spring-kafka"), (False, "linear-retry")]
)
def test_of_several_systems_the_last_counts(ours_first: bool, expected: str) -> None:
    """A letter that died again elsewhere is that system's: each adds its headers at the end."""
    ours = our_record().headers
    headers = (*ours, *_SPRING) if ours_first else (*_SPRING, *ours)
    assert expected == read_letter(replace(our_record(), headers=headers)).format


def test_a_replayed_message_that_died_elsewhere_is_that_systems() -> None:
    """It bears our headers of a message, not those of a letter: they do not make it garbled."""
    replayed = (("retry-id", b"billing/orders/3/7/1"), ("retry-replay-id", b"r"))
    letter = read_letter(Record("orders.dlq", 0, 0, 1, None, b"", (*replayed, *_SPRING)))
    assert ("spring-kafka", None, Origin("payments", 2, 7)) == (
        letter.format,
        letter.problem,
        letter.origin,
    )


_LETTER = our_letter(7, error=ErrorText("billing.CardRefused", "card 4242 REFUSED", None))
_AT_MS = _LETTER.timestamp_ms

_MEANT = [
    Filter(reasons=("exhausted",)),
    Filter(reasons=("permanent", "exhausted")),
    Filter(exceptions=("cardrefused",)),
    Filter(exceptions=("nothing", "4242 refused")),
    Filter(origins=(("orders", None),)),
    Filter(origins=(("orders", 3), ("payments", None))),
    Filter(keys=(b"ann",)),
    Filter(keys=(None, b"ann")),
    Filter(not_exceptions=("timeout",), not_origins=(("orders", 2), ("order", None))),
    Filter(since_ms=_AT_MS, until_ms=_AT_MS + 1),
    Filter(ids=(_LETTER.id,)),
    Filter(ids=(_LETTER.resolution_key,)),
    Filter(chosen=frozenset({_LETTER.resolution_key})),
    Filter(headers=(("tenant", b"acme"), ("retry-counter", b"2"))),
    Filter(states=(State.RESOLVED, State.OPEN)),
]
_OTHERS = [
    Filter(reasons=("permanent",)),
    Filter(exceptions=("timeout",)),
    Filter(origins=(("orders", 2), ("order", None))),
    Filter(keys=(b"an",)),
    Filter(keys=(None,)),
    Filter(not_exceptions=("timeout", "cardrefused")),
    Filter(not_origins=(("orders", None),)),
    Filter(not_origins=(("orders", 3),)),
    Filter(since_ms=_AT_MS + 1),
    Filter(until_ms=_AT_MS),
    Filter(ids=(f"{_LETTER.id}#2", "billing")),
    Filter(chosen=frozenset({_LETTER.id})),
    Filter(chosen=frozenset()),  # chosen from, and nothing found: not everything
    Filter(headers=(("tenant", b"acme"), ("tenant", b"other"))),
    Filter(states=(State.RESOLVED, State.REPLAYED)),
]


@pytest.mark.parametrize("letter_filter", _MEANT)
def test_a_criterion_that_holds(letter_filter: Filter) -> None:
    """Of several values of one criterion any may hold; of headers all must."""
    assert letter_filter.matches(_LETTER, State.OPEN)


@pytest.mark.parametrize("letter_filter", _OTHERS)
def test_a_criterion_that_does_not_hold(letter_filter: Filter) -> None:
    """One that does not hold is enough, whatever else does."""
    assert not letter_filter.matches(_LETTER, State.OPEN)


@given(st.lists(st.sampled_from(_MEANT + _OTHERS), max_size=4))
def test_criteria_are_combined_with_and(filters: list[Filter]) -> None:
    """What several filters say at once is what all of them say one by one."""
    combined, parts = EVERYTHING, []
    for each in filters:
        changed = {
            field.name: getattr(each, field.name)
            for field in fields(Filter)
            if getattr(each, field.name) != getattr(EVERYTHING, field.name)
        }
        if not any(getattr(combined, name) != getattr(EVERYTHING, name) for name in changed):
            combined = replace(combined, **changed)
            parts.append(each)
    expected = all(each.matches(_LETTER, State.OPEN) for each in parts)
    assert expected == combined.matches(_LETTER, State.OPEN)


@given((our_records() | RECORDS).map(read_letter), st.sampled_from(State))
def test_no_criterion_means_everything(letter: Letter, state: State) -> None:
    """Whatever lies in a topic is meant by a filter that says nothing."""
    assert EVERYTHING.matches(letter, state)


@given((our_records() | RECORDS).map(read_letter), st.sampled_from(_MEANT + _OTHERS))
def test_a_filter_never_raises(letter: Letter, letter_filter: Filter) -> None:
    """A letter that says nothing of what is asked for is not meant; that is no error."""
    assert letter_filter.matches(letter, State.OPEN) in (True, False)


def test_letters_without_a_key_can_be_chosen() -> None:
    """There was no way to name them: an empty key is another one."""
    no_key = Filter(keys=(None,))
    assert no_key.matches(our_letter(key=None), State.OPEN)
    assert not no_key.matches(our_letter(key=b""), State.OPEN)
