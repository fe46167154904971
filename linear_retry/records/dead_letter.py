"""The dead letter: what its headers say, and how it is read back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from linear_retry.errors import DeadLetterError
from linear_retry.records.exception_text import ErrorText
from linear_retry.records.header_reader import HeaderReader
from linear_retry.records.header_text import Header, valid_unicode
from linear_retry.records.record import Record

VERSION = 1

_GENERATION_MAX = 2**31 - 1

_VERSION = "retry-version"
_ID = "retry-id"
_GENERATION = "retry-generation"
_DESTINATION = "retry-destination"
_ORIGINAL_PARTITION = "retry-original-partition"
_ORIGINAL_OFFSET = "retry-original-offset"
_ORIGINAL_TIMESTAMP_MS = "retry-original-timestamp-ms"
GROUP_ID = "retry-group-id"
_SEND_TO = "retry-send-to"
_REASON = "retry-reason"
_COUNTER = "retry-counter"
_RETRY_AT_MS = "retry-at-ms"
_FIRST_FAILURE_MS = "retry-first-failure-ms"
_LAST_FAILURE_MS = "retry-last-failure-ms"
_STRATEGY = "retry-strategy"
_EXCEPTION_TYPE = "retry-exception-type"
_EXCEPTION_MESSAGE = "retry-exception-message"
_EXCEPTION_STACK = "retry-exception-stack"
_ESCAPED_HEADERS = "retry-escaped-headers"
_OVERSIZED = "retry-oversized"
REPLAY_ID = "retry-replay-id"
_REPLAY_COUNT = "retry-replay-count"

HEADER_NAMES = frozenset(
    {
        *(_VERSION, _ID, _GENERATION),
        *(_DESTINATION, _ORIGINAL_PARTITION, _ORIGINAL_OFFSET, _ORIGINAL_TIMESTAMP_MS),
        *(GROUP_ID, _SEND_TO, _REASON, _COUNTER, _RETRY_AT_MS),
        *(_FIRST_FAILURE_MS, _LAST_FAILURE_MS, _STRATEGY),
        *(_EXCEPTION_TYPE, _EXCEPTION_MESSAGE, _EXCEPTION_STACK),
        *(_ESCAPED_HEADERS, _OVERSIZED, REPLAY_ID, _REPLAY_COUNT),
    }
)
"""The headers that are ours. Any other name, `retry-foo` too, is the user's and stays."""


@dataclass(frozen=True, slots=True)
class FailureInfo:
    """Why a consumer group gave a message up. `strategy` is `name@fingerprint`."""

    group_id: str
    reason: str
    failures: int
    first_failure_ms: int
    last_failure_ms: int
    strategy: str
    error: ErrorText | None = None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter: the message's own parts, and what our headers say about it.

    `retry_id`, `destination` and `original_*` are of the first death, for ever; the rest is of the
    last. `replay_id` and `replay_count` are there on a replayed message only, `retry_at_ms` only
    where `send_to` is `retry`, and `oversized` where the value is not the message's own.
    """

    key: bytes | None
    value: bytes | None
    original_headers: tuple[Header, ...]
    retry_id: str
    generation: int
    destination: str
    original_partition: int
    original_offset: int
    original_timestamp_ms: int
    group_id: str
    reason: str
    failures: int
    first_failure_ms: int
    last_failure_ms: int
    strategy: str
    error: ErrorText | None = None
    escaped_headers: tuple[str, ...] = ()
    send_to: str = "dead-letter"
    retry_at_ms: int | None = None
    oversized: str | None = None
    replay_id: str | None = None
    replay_count: int | None = None

    def headers(self) -> list[Header]:
        """What to send: the original headers, then ours, each of ours once, UTF-8 text."""
        ours = (
            (name, str(content).encode("utf-8", "replace"))
            for name, content in self._contents()
            if content is not None
        )
        return [*self.original_headers, *ours]

    def _contents(self) -> tuple[tuple[str, str | int | None], ...]:
        error = self.error
        return (
            (_VERSION, VERSION),
            (_ID, self.retry_id),
            (_GENERATION, self.generation),
            (_DESTINATION, self.destination),
            (_ORIGINAL_PARTITION, self.original_partition),
            (_ORIGINAL_OFFSET, self.original_offset),
            (_ORIGINAL_TIMESTAMP_MS, self.original_timestamp_ms),
            (GROUP_ID, self.group_id),
            (_SEND_TO, self.send_to),
            (_REASON, self.reason),
            (_COUNTER, self.failures),
            (_RETRY_AT_MS, self.retry_at_ms),
            (_FIRST_FAILURE_MS, self.first_failure_ms),
            (_LAST_FAILURE_MS, self.last_failure_ms),
            (_STRATEGY, self.strategy),
            (_EXCEPTION_TYPE, None if error is None else error.type),
            (_EXCEPTION_MESSAGE, None if error is None else error.message),
            (_EXCEPTION_STACK, None if error is None else error.stack),
            (_ESCAPED_HEADERS, ",".join(self.escaped_headers) if self.escaped_headers else None),
            (_OVERSIZED, self.oversized),
            (REPLAY_ID, self.replay_id),
            (_REPLAY_COUNT, self.replay_count),
        )


def resolutions_topic(dead_letter_topic: str) -> str:
    """The compacted topic where it is recorded which of these letters have been dealt with."""
    return f"{dead_letter_topic}.resolved"


def to_dead_letter(record: Record, failure: FailureInfo) -> DeadLetter:
    """The letter for `record`, which failed as `failure` says.

    A message that was replayed (`retry-replay-id`) continues its lineage. Any other starts one,
    whatever headers of ours it bears: nothing says that they are about *this* message. So does a
    replayed one whose identity is garbled. Headers of ours are replaced in each case. Never raises,
    whatever the headers say.
    """
    lineage = _continued_lineage(record, failure.group_id) or _new_lineage(record, failure.group_id)
    return DeadLetter(
        key=record.key,
        value=record.value,
        original_headers=tuple(h for h in record.headers if h[0] not in HEADER_NAMES),
        retry_id=lineage.retry_id,
        generation=lineage.generation,
        destination=lineage.destination,
        original_partition=lineage.partition,
        original_offset=lineage.offset,
        original_timestamp_ms=lineage.timestamp_ms,
        group_id=valid_unicode(failure.group_id),
        reason=valid_unicode(failure.reason),
        failures=failure.failures,
        first_failure_ms=failure.first_failure_ms,
        last_failure_ms=failure.last_failure_ms,
        # A strategy is named after its file, and a file's name need not be Unicode.
        strategy=valid_unicode(failure.strategy),
        error=failure.error,
        escaped_headers=tuple(dict.fromkeys((*lineage.escaped_headers, *record.escaped_headers))),
    )


def parse(headers: Iterable[Header], key: bytes | None, value: bytes | None) -> DeadLetter:
    """The dead letter that a record is: the inverse of `DeadLetter.headers`.

    Of a header that comes twice the last counts. Raises `DeadLetterError`, which names every
    problem, where a header without a default is missing or any of ours is garbled.
    """
    all_headers = tuple(headers)
    said = HeaderReader(all_headers)
    letter = DeadLetter(
        key=key,
        value=value,
        original_headers=tuple(h for h in all_headers if h[0] not in HEADER_NAMES),
        retry_id=said.text(_ID),
        generation=said.number(_GENERATION, at_least=1, at_most=_GENERATION_MAX, default=1),
        destination=said.text(_DESTINATION),
        original_partition=said.number(_ORIGINAL_PARTITION),
        original_offset=said.number(_ORIGINAL_OFFSET),
        original_timestamp_ms=said.number(_ORIGINAL_TIMESTAMP_MS, at_least=-1, default=-1),
        group_id=said.text(GROUP_ID),
        reason=said.text(_REASON),
        failures=said.number(_COUNTER, default=0),
        first_failure_ms=said.number(_FIRST_FAILURE_MS, at_least=-1, default=-1),
        last_failure_ms=said.number(_LAST_FAILURE_MS, at_least=-1, default=-1),
        strategy=said.optional_text(_STRATEGY) or "",
        error=_error(said),
        escaped_headers=said.names(_ESCAPED_HEADERS),
        send_to=said.optional_text(_SEND_TO) or "dead-letter",
        retry_at_ms=said.optional_number(_RETRY_AT_MS),
        oversized=said.optional_text(_OVERSIZED),
        replay_id=said.optional_text(REPLAY_ID),
        replay_count=said.optional_number(_REPLAY_COUNT),
    )
    if said.number(_VERSION) > VERSION:
        said.problems.append(f"{_VERSION} is above {VERSION}: upgrade linear-retry to read it")
    if said.problems:
        raise DeadLetterError("not a dead letter: " + "; ".join(said.problems))
    return letter


def foreign_group(record: Record, group_id: str) -> str | None:
    """The group that `record` was replayed for, where `group_id` is to pass it over; else None.

    That is so where the topic is its `retry-destination`: this group had its own first life of it
    there. Anywhere else a replayed message is for whoever reads that topic.
    """
    if not any(name == REPLAY_ID for name, _ in record.headers):
        return None
    said = HeaderReader(record.headers)
    other_id, destination = said.text(GROUP_ID), said.text(_DESTINATION)
    said.text(REPLAY_ID)
    if said.problems or destination != record.topic or other_id == group_id:
        return None
    return other_id


@dataclass(frozen=True, slots=True)
class Lineage:
    """What a letter keeps of a message's first death, and the generation it will be."""

    retry_id: str
    generation: int
    destination: str
    partition: int
    offset: int
    timestamp_ms: int
    escaped_headers: tuple[str, ...] = ()


def _new_lineage(record: Record, group_id: str) -> Lineage:
    place = f"{record.topic}/{record.partition}/{record.offset}/{record.timestamp_ms}"
    return Lineage(
        retry_id=valid_unicode(f"{group_id}/{place}"),
        generation=1,
        destination=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
    )


def _continued_lineage(record: Record, group_id: str) -> Lineage | None:
    said = HeaderReader(record.headers)
    if said.optional_text(REPLAY_ID) is None:
        return None
    present = {name for name, _ in record.headers}
    is_for_all = present.isdisjoint((_ID, GROUP_ID))
    lineage = Lineage(
        retry_id="" if is_for_all else said.text(_ID),
        generation=1 + said.number(_GENERATION, at_least=1, at_most=_GENERATION_MAX - 1),
        destination=said.text(_DESTINATION),
        partition=said.number(_ORIGINAL_PARTITION),
        offset=said.number(_ORIGINAL_OFFSET),
        timestamp_ms=said.number(_ORIGINAL_TIMESTAMP_MS, at_least=-1),
        escaped_headers=tuple(n for n in said.names(_ESCAPED_HEADERS) if n in present),
    )
    if is_for_all:
        # Sent to every group: with one id the letters of two groups would count as one.
        place = f"{lineage.destination}/{lineage.partition}/{lineage.offset}/{lineage.timestamp_ms}"
        lineage = replace(lineage, retry_id=valid_unicode(f"{group_id}/{place}"))
    # All or nothing: an identity put together from two lives would be a third message's.
    return None if said.problems else lineage


def _error(said: HeaderReader) -> ErrorText | None:
    type_name, message, stack = (
        said.optional_text(name) for name in (_EXCEPTION_TYPE, _EXCEPTION_MESSAGE, _EXCEPTION_STACK)
    )
    if type_name is None and message is None and stack is None:
        return None
    return ErrorText(type_name or "", message, stack)
