"""The dead letter: what its headers say, how it is read back, and its smaller forms."""

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from linear_retry.records import retry_headers as names
from linear_retry.records.record import Record
from linear_retry.records.retry_headers import (
    HeaderReader,
    RetryHeaders,
    read_retry_headers,
    write_retry_headers,
)
from linear_retry.records.text import ErrorText, Header, valid_unicode


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
    send_to: str = names.DEAD_LETTER
    retry_at_ms: int | None = None
    oversized: str | None = None
    replay_id: str | None = None
    replay_count: int | None = None

    def headers(self) -> list[Header]:
        """What to send: the original headers, then ours, each of ours once, UTF-8 text."""
        ours = {name: getattr(self, name) for name in RetryHeaders._fields if hasattr(self, name)}
        if self.error is not None:
            ours["exception_type"] = self.error.type
            ours["exception_message"] = self.error.message
            ours["exception_stack"] = self.error.stack
        return [*self.original_headers, *write_retry_headers(RetryHeaders(**ours))]


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
        original_headers=tuple(h for h in record.headers if h[0] not in names.HEADER_NAMES),
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

    Of a header that comes twice the last counts. Raises `DeadLetterError` as `read_retry_headers`.
    """
    all_headers = tuple(headers)
    fields = read_retry_headers(dict(all_headers))._asdict()
    kind, message, stack = (
        fields.pop(name) for name in RetryHeaders._fields if "exception_" in name
    )
    return DeadLetter(
        key=key,
        value=value,
        original_headers=tuple(h for h in all_headers if h[0] not in names.HEADER_NAMES),
        error=None if kind is message is stack is None else ErrorText(kind or "", message, stack),
        **fields,
    )


def foreign_group(record: Record, group_id: str) -> str | None:
    """The group that `record` was replayed for, where `group_id` is to pass it over; else None.

    That is so where the topic is its `retry-destination`: this group had its own first life of it
    there. Anywhere else a replayed message is for whoever reads that topic.
    """
    if not any(name == names.REPLAY_ID for name, _ in record.headers):
        return None
    reader = HeaderReader(dict(record.headers))
    other_id, destination = reader.text(names.GROUP_ID), reader.text(names.DESTINATION)
    reader.text(names.REPLAY_ID)
    if reader.problems or destination != record.topic or other_id == group_id:
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
    reader = HeaderReader(dict(record.headers))
    if reader.optional_text(names.REPLAY_ID) is None:
        return None
    present = {name for name, _ in record.headers}
    is_for_all = present.isdisjoint((names.ID, names.GROUP_ID))
    lineage = Lineage(
        retry_id="" if is_for_all else reader.text(names.ID),
        generation=1
        + reader.number(names.GENERATION, at_least=1, at_most=names.GENERATION_MAX - 1),
        destination=reader.text(names.DESTINATION),
        partition=reader.number(names.ORIGINAL_PARTITION),
        offset=reader.number(names.ORIGINAL_OFFSET),
        timestamp_ms=reader.number(names.ORIGINAL_TIMESTAMP_MS, at_least=-1),
        escaped_headers=tuple(n for n in reader.names(names.ESCAPED_HEADERS) if n in present),
    )
    if is_for_all:
        # Sent to every group: with one id the letters of two groups would count as one.
        place = f"{lineage.destination}/{lineage.partition}/{lineage.offset}/{lineage.timestamp_ms}"
        lineage = replace(lineage, retry_id=valid_unicode(f"{group_id}/{place}"))
    # All or nothing: an identity put together from two lives would be a third message's.
    return None if reader.problems else lineage


REFERENCE = "reference"
"""What `retry-oversized` says where the value is an envelope."""

SAMPLE_BYTES = 1024


def smaller_forms(letter: DeadLetter, record: Record | None) -> Iterator[DeadLetter]:
    """`letter`, then ever smaller forms of it: send the first that is not too large.

    First goes the exception's stack, then its message: the message's own parts are whole in these.
    With its `record` come envelopes in the value's stead (`reference`): with key and
    original headers, without these headers, and with neither them nor key nor exception texts.
    """
    yield letter
    shorter = letter
    if shorter.error is not None and shorter.error.stack is not None:
        shorter = replace(shorter, error=replace(shorter.error, stack=None))
        yield shorter
    if shorter.error is not None and shorter.error.message is not None:
        shorter = replace(shorter, error=replace(shorter.error, message=None))
        yield shorter
    if record is not None:
        yield reference(letter, record)
        # Headers and key count towards a record's size as the value does, and have no limit either.
        yield reference(letter, record, keep_headers=False)
        yield reference(shorter, record, keep_headers=False, keep_key=False)


def reference(
    letter: DeadLetter, record: Record, *, keep_headers: bool = True, keep_key: bool = True
) -> DeadLetter:
    """`letter` with an envelope in JSON as its value: where the message is, and what it was.

    The envelope names the topic, partition and offset that `record` was read from: for a replayed
    message another place than that of its first death, and the only one where the value still is
    for certain, as long as that topic retains it. docs/dead-letters/format.md describes each field.
    """
    size_bytes = sum(len(name.encode()) + len(value or b"") for name, value in record.headers)
    envelope = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "value": _described(record.value),
        "key": _described(record.key),
        "key_kept": keep_key,
        "headers": {"count": len(record.headers), "bytes": size_bytes},
        "headers_kept": keep_headers,
    }
    return replace(
        letter,
        key=letter.key if keep_key else None,
        value=json.dumps(envelope).encode(),
        original_headers=letter.original_headers if keep_headers else (),
        escaped_headers=letter.escaped_headers if keep_headers else (),
        oversized=REFERENCE,
    )


def _described(content: bytes | None) -> dict[str, int | str] | None:
    if content is None:
        return None
    return {
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "start_base64": base64.b64encode(content[:SAMPLE_BYTES]).decode(),
    }
