"""The dead letter: its headers, how it is read back, and its smaller forms."""

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from linear_retry.records import retry_headers as names
from linear_retry.records.lineage import Hop, Line, Lineage, lineage_of
from linear_retry.records.record import Record
from linear_retry.records.retry_headers import (
    RetryHeaders,
    read_retry_headers,
    write_retry_headers,
)
from linear_retry.records.text import ErrorText, Header, valid_unicode


@dataclass(frozen=True, slots=True)
class FailureInfo:
    """Why a consumer group gave up a message. `strategy` is `name@fingerprint`.

    Without `failures` it was not attempted where it was read: its last failure stays what it was.

    `hop` is the wait that it leaves for; None: it is given up for good.
    """

    group_id: str
    reason: str
    failures: int
    first_failure_ms: int
    last_failure_ms: int
    strategy: str
    error: ErrorText | None = None
    hop: Hop | None = None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter: the message's own parts, and the content of our headers.

    `retry_id`, `destination` and `original_*` never change after the message was first
    dead-lettered; the rest describes the last time. `replay_id` and `replay_count` are set only on
    a replayed message, `retry_at_ms` only if `send_to` is `retry` or it was drained, `step` only if
    it has been in a retry topic, and `oversized` only if the value is not the message's own.
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
    step: int | None = None
    error: ErrorText | None = None
    escaped_headers: tuple[str, ...] = ()
    send_to: str = names.DEAD_LETTER
    retry_at_ms: int | None = None
    oversized: str | None = None
    replay_id: str | None = None
    replay_count: int | None = None

    def headers(self) -> list[Header]:
        """Returns the headers to send: the original ones, then each of ours once, as UTF-8 text."""
        ours = {name: getattr(self, name) for name in RetryHeaders._fields if hasattr(self, name)}
        if self.error is not None:
            ours["exception_type"] = self.error.type
            ours["exception_message"] = self.error.message
            ours["exception_stack"] = self.error.stack
        return [*self.original_headers, *write_retry_headers(RetryHeaders(**ours))]


def resolutions_topic(dead_letter_topic: str) -> str:
    """The name of the compacted topic that records which letters are replayed or resolved."""
    return f"{dead_letter_topic}.resolved"


def to_dead_letter(
    record: Record, failure: FailureInfo, lineage: Lineage | None = None
) -> DeadLetter:
    """Builds the dead letter for `record`, which failed as `failure` says.

    `lineage` is the message's identity; None: as read by a line without retry topics. Headers of
    ours are replaced in each case. Never raises, whatever the headers contain.
    """
    lineage = lineage or lineage_of(record, Line(failure.group_id))
    escaped = (*lineage.escaped_headers, *record.escaped_headers)
    return DeadLetter(
        key=record.key,
        value=record.value,
        original_headers=_original_headers(record, lineage, failure.hop),
        **_identity(lineage, failure.hop),
        group_id=valid_unicode(failure.group_id),
        reason=valid_unicode(failure.reason),
        failures=lineage.failures + failure.failures,
        first_failure_ms=lineage.first_failure_ms if lineage.failures else failure.first_failure_ms,
        last_failure_ms=failure.last_failure_ms if failure.failures else lineage.last_failure_ms,
        # A strategy is named after its file, and a file name need not be valid Unicode.
        strategy=valid_unicode(failure.strategy),
        error=failure.error if failure.failures else lineage.error,
        escaped_headers=tuple(dict.fromkeys(escaped)),
    )


def _original_headers(record: Record, lineage: Lineage, hop: Hop | None) -> tuple[Header, ...]:
    headers = tuple(h for h in record.headers if h[0] not in names.HEADER_NAMES)
    if hop is None or not hop.is_marked or names.RECEIVED_TOPIC in dict(headers):
        return headers
    received = str(lineage.original_timestamp_ms).encode(), lineage.destination.encode()
    names_received = names.RECEIVED_TIMESTAMP, names.RECEIVED_TOPIC
    return (*headers, *zip(names_received, received, strict=True))


def _identity(lineage: Lineage, hop: Hop | None) -> dict[str, Any]:
    """Returns the identity fields. A dead letter after a replay has the next generation.

    A hop keeps generation and replay, which together with its step identify it.
    """
    found: dict[str, Any] = {
        "retry_id": lineage.retry_id,
        "generation": lineage.generation,
        "destination": lineage.destination,
        "original_partition": lineage.original_partition,
        "original_offset": lineage.original_offset,
        "original_timestamp_ms": lineage.original_timestamp_ms,
    }
    if hop is not None:
        found |= {"send_to": names.RETRY, "retry_at_ms": hop.retry_at_ms, "step": hop.step or None}
        return found | {"replay_id": lineage.replay_id, "replay_count": lineage.replay_count}
    if lineage.hop is not None:
        found["step"] = lineage.hop.step or None
    if lineage.replay_id is not None:
        found["generation"] += 1
    return found


def parse(headers: Iterable[Header], key: bytes | None, value: bytes | None) -> DeadLetter:
    """Reads a dead letter from a record: the inverse of `DeadLetter.headers`.

    If a header occurs twice, the last one counts. Raises `DeadLetterError` as `read_retry_headers`.
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


REFERENCE = "reference"
"""The value of `retry-oversized` if the letter's value is an envelope."""

SAMPLE_BYTES = 1024


def smaller_forms(letter: DeadLetter, record: Record | None) -> Iterator[DeadLetter]:
    """Yields smaller and smaller forms of `letter`: send the first that is not too large.

    The exception's stack is dropped first, then its text: these forms keep the whole message. With
    its `record`, forms with an envelope as value follow (`reference`): with key and original
    headers, without the headers, and without headers, key and exception texts.
    """
    shorter = letter
    if shorter.error is not None and shorter.error.stack is not None:
        shorter = replace(shorter, error=replace(shorter.error, stack=None))
        yield shorter
    if shorter.error is not None and shorter.error.message is not None:
        shorter = replace(shorter, error=replace(shorter.error, message=None))
        yield shorter
    if record is not None:
        yield reference(letter, record)
        # Headers and key count towards a record's size like the value, and are not limited either.
        yield reference(letter, record, keep_headers=False)
        yield reference(shorter, record, keep_headers=False, keep_key=False)


def reference(
    letter: DeadLetter, record: Record, *, keep_headers: bool = True, keep_key: bool = True
) -> DeadLetter:
    """Returns `letter` with a JSON envelope as its value: where the message is, and what it was.

    The envelope names the topic, partition and offset that `record` was read from. For a replayed
    message that is not the original place, but it is the only one where the value is certain to be,
    for as long as that topic retains it. docs/dead-letters/format.md describes each field.
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
