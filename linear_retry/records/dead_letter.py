"""The dead letter: its headers, how it is read back, and its smaller forms."""

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from linear_retry.errors import DeadLetterError
from linear_retry.records import retry_headers as names
from linear_retry.records.record import Record
from linear_retry.records.retry_headers import (
    RetryHeaders,
    read_headers,
    read_retry_headers,
    write_retry_headers,
)
from linear_retry.records.text import ErrorText, Header, valid_unicode


@dataclass(frozen=True, slots=True)
class FailureInfo:
    """Why a consumer group gave up a message. `strategy` is `name@fingerprint`."""

    group_id: str
    reason: str
    failures: int
    first_failure_ms: int
    last_failure_ms: int
    strategy: str
    error: ErrorText | None = None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter: the message's own parts, and the content of our headers.

    `retry_id`, `destination` and `original_*` never change after the message was first
    dead-lettered; the rest describes the last time. `replay_id` and `replay_count` are set only on
    a replayed message, `retry_at_ms` only if `send_to` is `retry`, and `oversized` only if the
    value is not the message's own.
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


def to_dead_letter(record: Record, failure: FailureInfo) -> DeadLetter:
    """Builds the dead letter for `record`, which failed as `failure` says.

    A replayed message (`retry-replay-id`) keeps its identity. Any other gets a new one, even if it
    has headers of ours: they may have been copied from another message. So does a replayed one
    whose identity is unreadable. Headers of ours are replaced in each case. Never raises,
    whatever the headers say.
    """
    lineage = _continued_lineage(record, failure.group_id) or _new_lineage(record, failure.group_id)
    escaped = (*lineage.pop("escaped_headers"), *record.escaped_headers)
    return DeadLetter(
        key=record.key,
        value=record.value,
        original_headers=tuple(h for h in record.headers if h[0] not in names.HEADER_NAMES),
        group_id=valid_unicode(failure.group_id),
        reason=valid_unicode(failure.reason),
        failures=failure.failures,
        first_failure_ms=failure.first_failure_ms,
        last_failure_ms=failure.last_failure_ms,
        # A strategy is named after its file, and a file name need not be valid Unicode.
        strategy=valid_unicode(failure.strategy),
        error=failure.error,
        escaped_headers=tuple(dict.fromkeys(escaped)),
        **lineage,
    )


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


def foreign_group(record: Record, group_id: str) -> str | None:
    """Returns the group that `record` was replayed for, if `group_id` must skip it; else None.

    It must if the topic is the message's `retry-destination`: this group has read the original
    there. In any other topic a replayed message is for every reader of that topic.
    """
    contents = dict(record.headers)
    if names.REPLAY_ID not in contents:
        return None
    try:
        found = read_headers(contents, _REPLAYED_FOR)
    except DeadLetterError:
        return None
    is_another = found["group_id"] != group_id and found["destination"] == record.topic
    return found["group_id"] if is_another else None


# What a letter keeps of the first time that a message was dead-lettered; all are required.
_ORIGIN = ("destination", "original_partition", "original_offset", "original_timestamp_ms")
_REQUIRED = {each.field: each._replace(default=None) for each in names.RETRY_HEADERS}
_REPLAY_ID = _REQUIRED["replay_id"]._replace(may_be_missing=False)
_REPLAYED_FOR = (_REQUIRED["group_id"], _REQUIRED["destination"], _REPLAY_ID)
_LINEAGE = tuple(_REQUIRED[field] for field in ("generation", *_ORIGIN, "escaped_headers"))


def _new_lineage(record: Record, group_id: str) -> dict[str, Any]:
    place = f"{record.topic}/{record.partition}/{record.offset}/{record.timestamp_ms}"
    return {
        "retry_id": valid_unicode(f"{group_id}/{place}"),
        "generation": 1,
        "destination": record.topic,
        "original_partition": record.partition,
        "original_offset": record.offset,
        "original_timestamp_ms": record.timestamp_ms,
        "escaped_headers": (),
    }


def _continued_lineage(record: Record, group_id: str) -> dict[str, Any] | None:
    contents = dict(record.headers)
    if contents.get(names.REPLAY_ID) is None:
        return None
    is_for_all = contents.keys().isdisjoint((names.ID, names.GROUP_ID))
    headers = (_REQUIRED["replay_id"], *_LINEAGE)
    try:
        found = read_headers(contents, headers if is_for_all else (_REQUIRED["retry_id"], *headers))
    except DeadLetterError:
        # All or nothing: an identity mixed from two messages would be that of neither.
        return None
    if found["generation"] == names.GENERATION_MAX:
        return None
    del found["replay_id"]
    found["generation"] += 1
    listed = names.listed_names(found["escaped_headers"])
    found["escaped_headers"] = tuple(name for name in listed if name in contents)
    if is_for_all:
        # The message goes to every group: with one id, two groups' letters would count as one.
        place = "/".join(str(found[field]) for field in _ORIGIN)
        found["retry_id"] = valid_unicode(f"{group_id}/{place}")
    return found


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
