"""A dead letter says what it must, and is read back as it was written."""

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.errors import DeadLetterError
from linear_retry.records.dead_letter import (
    DeadLetter,
    FailureInfo,
    parse,
    to_dead_letter,
)
from linear_retry.records.lineage import Line, foreign_group
from linear_retry.records.record import Record
from linear_retry.records.retry_headers import HEADER_NAMES
from linear_retry.records.text import ErrorText, Header

_INT64_MAX = 2**63 - 1
_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_some_text = _text.filter(bool)
_payload = st.none() | st.binary(max_size=40)
_count = st.integers(0, _INT64_MAX)
_time_ms = st.integers(-1, _INT64_MAX)
_own_name = st.sampled_from(sorted(HEADER_NAMES))
_user_name = _text.filter(lambda name: name not in HEADER_NAMES)
_user_headers = st.lists(st.tuples(_user_name, _payload), max_size=4).map(tuple)
_garbage = st.binary(max_size=12) | st.sampled_from(
    [b"-1", b"+1", b" 1", b"1_0", "١".encode(), b"9" * 5000, b"\xff", b"", str(2**63).encode()]
)
_any_headers = st.lists(
    st.tuples(_own_name, st.none() | _garbage | st.just(b"1")) | st.tuples(_user_name, _payload),
    max_size=30,
).map(tuple)

_letters = st.builds(
    DeadLetter,
    key=_payload,
    value=_payload,
    original_headers=_user_headers,
    retry_id=_some_text,
    generation=st.integers(1, 2**31 - 1),
    destination=_some_text,
    original_partition=_count,
    original_offset=_count,
    original_timestamp_ms=_time_ms,
    group_id=_some_text,
    reason=_some_text,
    failures=_count,
    first_failure_ms=_time_ms,
    last_failure_ms=_time_ms,
    strategy=_text,
    error=st.none() | st.builds(ErrorText, _text, st.none() | _text, st.none() | _text),
    escaped_headers=st.lists(st.from_regex("[a-z%]*", fullmatch=True), max_size=3).map(tuple),
    send_to=_some_text,
    retry_at_ms=st.none() | _count,
    oversized=st.none() | _text,
    replay_id=st.none() | _text,
    replay_count=st.none() | _count,
)

_FAILURE = FailureInfo(
    group_id="team/billing",
    reason="exhausted",
    failures=3,
    first_failure_ms=1_700_000_000_000,
    last_failure_ms=1_700_000_009_000,
    strategy="short-outage@0123456789ab",
    error=ErrorText("requests.exceptions.Timeout", "no answer", "Traceback ..."),
)


def _record(*headers: Header, topic: str = "orders", offset: int = 1042) -> Record:
    return Record(topic, 3, offset, 1_699_999_999_999, b"ann", b"book", headers)


def _replayed(letter: DeadLetter, topic: str = "orders", offset: int = 2000) -> Record:
    again = replace(letter, replay_id="r-1", replay_count=1)
    return _record(*again.headers(), topic=topic, offset=offset)


@given(_letters)
def test_what_is_written_is_read(letter: DeadLetter) -> None:
    """Reading the headers of any letter gives that letter."""
    assert letter == parse(letter.headers(), letter.key, letter.value)


@given(_any_headers)
def test_any_record_becomes_a_letter_that_is_read_back(headers: tuple[Header, ...]) -> None:
    """Whatever headers a message bears, its letter is built, has each of ours once, and is read."""
    letter = to_dead_letter(_record(*headers), _FAILURE)
    names = [name for name, _ in letter.headers() if name in HEADER_NAMES]
    assert len(set(names)) == len(names)
    assert letter == parse(letter.headers(), letter.key, letter.value)


@given(_any_headers)
def test_reading_foreign_headers_gives_a_letter_or_one_error(headers: tuple[Header, ...]) -> None:
    """Reading any headers gives a letter or raises `DeadLetterError`, never anything else."""
    with contextlib.suppress(DeadLetterError):
        letter = parse(headers, None, None)
        assert letter == parse(letter.headers(), None, None)


@given(_user_headers)
def test_the_users_headers_are_kept(headers: tuple[Header, ...]) -> None:
    """Key, value and the user's headers come first, in order, byte for byte."""
    letter = to_dead_letter(_record(*headers), _FAILURE)
    assert list(headers) == letter.headers()[: len(headers)]
    assert (b"ann", b"book") == (letter.key, letter.value)


def test_the_headers_of_a_first_death() -> None:
    """A first death's letter has exactly the documented headers, as text."""
    headers = to_dead_letter(_record(("trace", b"\xff\0"), ("retry-foo", None)), _FAILURE).headers()
    assert [
        ("trace", b"\xff\0"),
        ("retry-foo", None),
        ("retry-version", b"1"),
        ("retry-id", b"team/billing/orders/3/1042/a2b1c6cf08cc"),
        ("retry-generation", b"1"),
        ("retry-destination", b"orders"),
        ("retry-original-partition", b"3"),
        ("retry-original-offset", b"1042"),
        ("retry-original-timestamp-ms", b"1699999999999"),
        ("retry-group-id", b"team/billing"),
        ("retry-send-to", b"dead-letter"),
        ("retry-reason", b"exhausted"),
        ("retry-counter", b"3"),
        ("retry-first-failure-ms", b"1700000000000"),
        ("retry-last-failure-ms", b"1700000009000"),
        ("retry-strategy", b"short-outage@0123456789ab"),
        ("retry-exception-type", b"requests.exceptions.Timeout"),
        ("retry-exception-message", b"no answer"),
        ("retry-exception-stack", b"Traceback ..."),
    ] == headers


def test_tombstones_stay_none_and_empty_stays_empty() -> None:
    """None is not turned into an empty value, nor the reverse."""
    tombstone = replace(_record(), value=None, key=b"")
    letter = to_dead_letter(tombstone, _FAILURE)
    assert (b"", None) == (letter.key, letter.value)


def test_a_replayed_message_keeps_its_identity() -> None:
    """The second death keeps id and origin, raises the generation, and replaces the rest."""
    first = to_dead_letter(_record(("trace", b"x")), _FAILURE)
    second_failure = FailureInfo("other", "permanent", 1, 7, 7, "s@1")
    second = to_dead_letter(_replayed(first, topic="orders.fixed"), second_failure)
    assert second == replace(
        first,
        generation=2,
        group_id="other",
        reason="permanent",
        failures=1,
        first_failure_ms=7,
        last_failure_ms=7,
        strategy="s@1",
        error=None,
    )


def test_a_letter_copied_by_hand_is_a_first_death() -> None:
    """Without `retry-replay-id` the headers of another message's death are replaced."""
    first = to_dead_letter(_record(), _FAILURE)
    copied = _record(*first.headers(), offset=2000)
    again = to_dead_letter(copied, _FAILURE)
    assert ("team/billing/orders/3/2000/a2b1c6cf08cc", 1) == (
        again.retry_id,
        again.generation,
    )


@pytest.mark.parametrize(
    "name",
    [
        "retry-id",
        "retry-generation",
        "retry-destination",
        "retry-original-partition",
        "retry-original-offset",
        "retry-original-timestamp-ms",
        "retry-replay-id",
    ],
)
@pytest.mark.parametrize("content", [None, b"", b"\xff", b"-2" * 30])
def test_a_garbled_identity_is_as_none(name: str, content: bytes | None) -> None:
    """One garbled part of a replayed message's identity makes the whole of it a first death."""
    replayed = _replayed(to_dead_letter(_record(), _FAILURE))
    if (name, content) in {(n, b"-2" * 30) for n in ("retry-id", "retry-destination")} | {
        ("retry-replay-id", b"-2" * 30),
        ("retry-replay-id", b""),
    }:
        content = b"\xfe"  # as text these are sound: garble them otherwise
    headers = tuple((n, content if n == name else v) for n, v in replayed.headers)
    again = to_dead_letter(replace(replayed, headers=headers), _FAILURE)
    assert ("team/billing/orders/3/2000/a2b1c6cf08cc", 1) == (
        again.retry_id,
        again.generation,
    )


def test_escaped_names_are_remembered_over_lives() -> None:
    """A header escaped in the first life is still named as escaped in the second."""
    record = replace(_record(("b%FF", b"1")), escaped_headers=("b%FF",))
    first = to_dead_letter(record, _FAILURE)
    second = to_dead_letter(_replayed(first), _FAILURE)
    assert (("b%FF",), ("b%FF",)) == (first.escaped_headers, second.escaped_headers)


def test_an_empty_name_is_remembered_as_escaped() -> None:
    """Bug: where the one changed header had an empty name, its letter named none."""
    letter = to_dead_letter(replace(_record(("", b"1")), escaped_headers=("",)), _FAILURE)
    assert (("",), letter) == (letter.escaped_headers, parse(letter.headers(), b"ann", b"book"))


def test_text_that_is_not_unicode_does_not_stop_a_letter() -> None:
    """A strategy named after a file whose name is not UTF-8 is written with a stand-in."""
    letter = to_dead_letter(_record(), replace(_FAILURE, strategy="caf\udce9@0123"))
    assert ("retry-strategy", b"caf?@0123") in letter.headers()


def test_every_problem_is_named() -> None:
    """The error for what is no letter names each header, what it says, and the rule."""
    with pytest.raises(DeadLetterError) as caught:
        parse([("retry-id", b"\xff"), ("retry-generation", b"x")], None, None)
    text = str(caught.value)
    assert "retry-id is b'\\xff', must be text in UTF-8" in text
    assert "retry-generation is b'x', must be a whole number" in text
    assert "retry-destination is missing" in text
    assert 1 == text.count("retry-id")


def test_a_later_version_is_refused() -> None:
    """A letter of a version above ours is not half understood."""
    letter = to_dead_letter(_record(), _FAILURE)
    headers = [(n, b"2" if n == "retry-version" else v) for n, v in letter.headers()]
    with pytest.raises(DeadLetterError, match="upgrade"):
        parse(headers, None, None)


def test_a_letter_of_another_system_needs_few_headers() -> None:
    """Identity, origin, group and reason suffice; the rest has defaults."""
    letter = parse(
        [
            ("retry-version", b"1"),
            ("retry-id", b"x"),
            ("retry-destination", b"orders"),
            ("retry-original-partition", b"0"),
            ("retry-original-offset", b"7"),
            ("retry-group-id", b"legacy"),
            ("retry-reason", b"something-new"),
        ],
        None,
        b"v",
    )
    assert (1, "dead-letter", 0, -1, "something-new") == (
        letter.generation,
        letter.send_to,
        letter.failures,
        letter.last_failure_ms,
        letter.reason,
    )


def test_another_groups_replay_is_passed_over() -> None:
    """A message replayed into its own topic for another group is not for this one."""
    replayed = _replayed(to_dead_letter(_record(), _FAILURE))
    assert "team/billing" == foreign_group(replayed, Line("shipping"))
    assert foreign_group(replayed, Line("team/billing")) is None


def test_a_replay_into_another_topic_is_for_whoever_reads_it() -> None:
    """Where the topic is not its `retry-destination`, a replayed message is passed over by none."""
    replayed = _replayed(to_dead_letter(_record(), _FAILURE), topic="orders.fixed")
    assert foreign_group(replayed, Line("shipping")) is None


def test_a_letter_that_was_not_replayed_is_passed_over_by_none() -> None:
    """Without `retry-replay-id`, a message is handled whatever its `retry-group-id` says."""
    copied = _record(*to_dead_letter(_record(), _FAILURE).headers())
    assert foreign_group(copied, Line("shipping")) is None


@given(_any_headers)
def test_garbled_headers_are_never_a_reason_to_raise(headers: tuple[Header, ...]) -> None:
    """Whatever the headers, asking for the foreign group answers."""
    assert foreign_group(_record(*headers), Line("shipping")) in (None, "1")
