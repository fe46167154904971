"""Who a message is stays the same, on any journey over lines, retry topics, letters and replays."""

from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.dlq.letters.letter import Letter, read_letter
from linear_retry.dlq.replay.outgoing import outgoing
from linear_retry.errors import DeadLetterError
from linear_retry.records.dead_letter import DeadLetter, FailureInfo, parse, to_dead_letter
from linear_retry.records.lineage import (
    Hop,
    Line,
    check_retried,
    foreign_group,
    is_returned,
    life_of,
    lineage_of,
    message_id,
)
from linear_retry.records.record import Record
from linear_retry.records.retry_headers import HEADER_NAMES, REPLAY_ID
from linear_retry.records.text import Header

_SOURCE, _RETRY, _LETTERS = "orders", "orders.billing.retry.5m", "orders.billing.dlq"


def _delay_ms(topic: str) -> int | None:
    return 300_000 if topic == _RETRY else None


_CONTENT = st.none() | st.binary(max_size=8) | st.sampled_from([b"retry", b"orders", b"1"])
_BILLING, _SHIPPING = Line("billing", _delay_ms), Line("shipping", _delay_ms)
_USERS = (("trace", b"1"), ("retry-foo", b"theirs"), ("retry-message-id", b"shop-1/7"))

Step: TypeAlias = Literal[
    "hop", "return", "letter", "replay", "replay for all", "replay for shipping", "replay to retry"
]
_STEPS: tuple[Step, ...] = get_args(Step)


@dataclass
class _Journey:
    """One message, as it lies somewhere, and what must be true of it."""

    record: Record = field(
        default_factory=lambda: Record(_SOURCE, 2, 1042, 1000, b"key", b"value", _USERS)
    )
    line: Line = _BILLING
    generation: int = 1
    failures: int = 0
    first_failure_ms: int = -1
    step: int = 0
    replays: int = 0
    has_id: bool = False
    is_letter: bool = False
    now_ms: int = 10_000

    @property
    def retry_id(self) -> str:
        return f"{self.line.group_id}/{_SOURCE}/2/1042/05680eda0fd8"

    def go(self, step: Step) -> None:
        """Ignores what is not possible where it is: letters are replayed, all else fails."""
        self.now_ms += 1000
        if self.is_letter and step.startswith("replay"):
            self._replay(step)
        elif not self.is_letter and step == "return" and self.record.topic == _RETRY:
            self._return()
        elif not self.is_letter and step in ("hop", "letter"):
            self._fail(step == "hop")

    def _fail(self, hops: bool) -> None:
        self._count_failure()
        failure = self._failure()
        if hops:
            self.step += 1
            at_ms = self.now_ms + 300_000
            failure = replace(failure, hop=Hop(_RETRY, self.step, "s@1", at_ms))
        else:
            self.is_letter = True
        letter = to_dead_letter(self.record, failure, lineage_of(self.record, self.line))
        assert letter == parse(letter.headers(), letter.key, letter.value)
        self._check(letter)
        if not hops and self.replays:
            self.generation = letter.generation
        self._move(_RETRY if hops else _LETTERS, letter)

    def _count_failure(self) -> None:
        self.first_failure_ms = self.first_failure_ms if self.failures else self.now_ms
        self.failures += 1

    def _return(self) -> None:
        """To its source: no failure, and the step that it had."""
        lineage = lineage_of(self.record, self.line)
        failure = replace(self._failure(), failures=0, hop=lineage.hop)
        letter = to_dead_letter(self.record, failure, lineage)
        self._check(letter)
        self._move(_SOURCE, letter)

    def _failure(self) -> FailureInfo:
        return FailureInfo(self.line.group_id, "transient", 1, self.now_ms, self.now_ms, "s@1")

    def _replay(self, step: Step) -> None:
        """The counts of its last life are over, and it is in the next one's place."""
        groups = {"replay for all": "", "replay for shipping": "shipping"}
        out = outgoing(self._letter(), "replay-1", lambda *_: None, groups.get(step))
        self.line = _SHIPPING if step == "replay for shipping" else self.line
        if step == "replay to retry":
            out = out.to_retry(300_000, self.now_ms)
        self.replays += 1
        self.failures, self.step, self.is_letter = 0, 0, False
        topic = _RETRY if step == "replay to retry" else _SOURCE
        self.record = Record(
            topic, 2, self.now_ms, self.now_ms, out.key, out.value, (*out.headers,)
        )

    def _letter(self) -> Letter:
        return read_letter(self.record)

    def _move(self, topic: str, letter: DeadLetter) -> None:
        """A record of `topic`, at another place and time than any before."""
        headers = tuple(letter.headers())
        at = (topic, 0, self.now_ms, self.now_ms)
        self.record = Record(*at, letter.key, letter.value, headers)

    def _check(self, letter: DeadLetter) -> None:
        """What never changes, and what counts on."""
        came = (letter.destination, letter.original_partition, letter.original_offset)
        assert (_SOURCE, 2, 1042, 1000) == (*came, letter.original_timestamp_ms)
        assert (b"key", b"value", _USERS) == (letter.key, letter.value, letter.original_headers)
        assert self.line.group_id == letter.group_id
        assert self.failures == letter.failures
        if self.failures:
            assert self.first_failure_ms == letter.first_failure_ms
        assert (self.step or None) == letter.step
        is_after_replay = self.is_letter and REPLAY_ID in dict(self.record.headers)
        assert self.generation + is_after_replay == letter.generation


def _ids_agree(journey: _Journey) -> None:
    """A message for one group keeps the id that it was given; one for all gets each group's."""
    contents = dict(journey.record.headers)
    found = lineage_of(journey.record, journey.line)
    if "retry-id" in contents:
        assert contents["retry-id"] == found.retry_id.encode()
    else:
        assert journey.retry_id == found.retry_id


@given(st.lists(st.sampled_from(_STEPS), max_size=25))
def test_any_journey(steps: list[Step]) -> None:
    """Identity, original place and first failure stay; steps and failures count on until a replay,
    and every letter after a replay is of the next generation."""
    journey = _Journey()
    for step in steps:
        journey.go(step)
        if not journey.is_letter:
            _ids_agree(journey)
            _the_users_agree(journey)


@given(st.lists(st.sampled_from(_STEPS), max_size=25))
def test_the_messages_id_is_the_same_on_any_journey(steps: list[Step]) -> None:
    """The bug: the outbox's id was in `retry-id`, which a letter, a retry topic and the scheduler
    replaced, so that readers who drop duplicates by it handled the message twice."""
    journey, seen = _Journey(), set[str]()
    for step in (*steps, None):
        if not journey.is_letter:
            record = journey.record
            assert b"shop-1/7" == dict(record.headers)["retry-message-id"]
            without = tuple(each for each in record.headers if each[0] != "retry-message-id")
            seen |= {message_id(record), message_id(replace(record, headers=without))}
        if step is not None:
            journey.go(step)
    assert {"shop-1/7/2cddcf695f72", f"{_SOURCE}/2/1042/05680eda0fd8"} == seen


_FIRST = Record(_SOURCE, 2, 1042, 1000, b"key", b"value")


@pytest.mark.parametrize(
    "another",
    [
        replace(_FIRST, value=b"other"),
        replace(_FIRST, value=None),
        replace(_FIRST, key=None, value=b"keyvalue"),
        replace(_FIRST, key=b"keyv", value=b"alue"),
        replace(_FIRST, timestamp_ms=1001),
    ],
)
def test_another_record_at_one_place_is_another_message(another: Record) -> None:
    """The bug: a source was made again, with the producers' times, and two messages had one
    `retry-id`: the second's letter was born resolved, or was not sent."""
    ids = {lineage_of(each, _BILLING).retry_id for each in (_FIRST, another)}
    assert (2, 2) == (len(ids), len({message_id(each) for each in (_FIRST, another)}))


def test_the_several_messages_that_are_made_of_one_are_several() -> None:
    """Programs copy headers: with the producer's id alone, all but one would be duplicates."""
    made = [replace(_hopped(), topic="invoices", value=value) for value in (b"1", b"2")]
    assert 2 == len({message_id(each) for each in made})


@given(st.lists(st.tuples(st.sampled_from([*sorted(HEADER_NAMES), "retry-message-id"]), _CONTENT)))
def test_a_messages_id_is_never_an_error(headers: list[Header]) -> None:
    """Whatever its headers are, a message has an id that can be sent."""
    assert message_id(replace(_FIRST, headers=tuple(headers))).encode()


def _the_users_agree(journey: _Journey) -> None:
    """Dead letters, what is passed over and the look for newer messages know the same lives."""
    record, contents = journey.record, dict(journey.record.headers)
    in_retry_topic = record.topic == _RETRY
    life = life_of(contents, record.topic, in_retry_topic=in_retry_topic)
    found = lineage_of(record, journey.line)
    assert (life == "retried") == (found.hop is not None)
    assert (life == "first") == (found.replay_id is None and found.hop is None)
    if not in_retry_topic:
        assert (life != "first") == is_returned(contents, record.topic)
    if in_retry_topic:
        check_retried(record)
    addressed = life != "first" and "retry-group-id" in contents
    other = _BILLING if journey.line is _SHIPPING else _SHIPPING
    assert None is foreign_group(record, journey.line)
    assert (journey.line.group_id if addressed else None) == foreign_group(record, other)


def test_a_hop_is_told_from_another() -> None:
    """By id, generation, replay and step: by the id alone the second hop would be a duplicate."""
    journey, seen = _Journey(), list[tuple[object, ...]]()
    steps: tuple[Step, ...] = ("hop", "hop", "letter", "replay to retry", "hop", "hop")
    for step in steps:
        journey.go(step)
        if step == "hop":
            found = parse(journey.record.headers, None, None)
            seen.append((found.retry_id, found.generation, found.replay_count, found.step))
    assert 4 == len(set(seen))
    assert 1 == len({retry_id for retry_id, *_ in seen})


def _hopped() -> Record:
    journey = _Journey()
    journey.go("hop")
    return journey.record


def test_headers_that_were_copied() -> None:
    """A handler writes what it got to its own topic, headers and all: that is another message."""
    copied = replace(_hopped(), topic="invoices", partition=0, offset=7)
    found = lineage_of(copied, _BILLING)
    assert ("billing/invoices/0/7/bc83d43d1eff", None) == (found.retry_id, found.hop)
    assert None is foreign_group(copied, _SHIPPING)


@pytest.mark.parametrize("name", sorted(HEADER_NAMES))
def test_a_retry_with_one_header_garbled(name: str) -> None:
    """It is the message that it was, without what is not readable; or it is refused, never retried
    as another one."""
    whole = _hopped()
    garbled = tuple((key, b"\xff" if key == name else value) for key, value in whole.headers)
    record = replace(whole, headers=garbled)
    before = lineage_of(whole, _BILLING)
    refusal = _refusal(record)
    if refusal is not None:
        assert name in refusal
        assert f"{_RETRY}[0]@" in refusal
        return
    found = lineage_of(record, _BILLING)
    assert before.retry_id == found.retry_id
    assert (_SOURCE, 2, 1042) == (
        *(found.destination, found.original_partition, found.original_offset),
    )


def _refusal(record: Record) -> str | None:
    try:
        check_retried(record)
    except DeadLetterError as error:
        return str(error)
    return None
