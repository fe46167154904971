"""Reads what a record asks of the scheduler: where it goes, and when."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from linear_retry.records import retry_headers as names
from linear_retry.records.durations import DAY_MS
from linear_retry.records.lineage import record_id
from linear_retry.records.record import Record
from linear_retry.records.retry_headers import INT64_MAX
from linear_retry.records.text import (
    Header,
    first_bytes,
    one_line,
    valid_unicode,
    whole_number,
)
from linear_retry.records.topics.names import is_topic_name
from linear_retry.scheduler.destinations import Destinations
from linear_retry.store.records import NewDeadLetter, NewMessage, slot_of

_PARTITION_MAX = 2**31 - 1
_TEXT_LIMIT_BYTES = 512
"""What people search by is in every list: a page of ids of a megabyte each would be 100 MB."""
MOST_YEARS = 10
_MOST_MS = MOST_YEARS * 366 * DAY_MS


class _RefusedError(Exception):
    """The record cannot be sent; `reason` is one word for it."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def read_request(
    record: Record, destinations: Destinations, now_ms: int
) -> NewMessage | NewDeadLetter:
    """Returns the message to keep, or the dead letter that says why it cannot be sent.

    Needed are the headers `retry-destination` and `retry-at-ms`; `retry-original-partition` is the
    partition, else the key decides. Of a header that occurs twice the last one counts. A time in
    the past is due at once; one that is more than ten years ahead is refused, as it is most likely
    in microseconds. Key, value and headers stay as they are. Never raises.
    """
    contents = dict(record.headers)
    try:
        destination = _destination(contents, destinations)
        partition = _partition(contents)
        due_ms = _due_ms(contents, now_ms)
    except _RefusedError as refused:
        return refuse(record, refused.reason, str(refused))
    return NewMessage(
        service="scheduler",
        destination=destination,
        slot=slot_of(record.key, partition),
        due_ms=due_ms,
        **_kept(record, contents),
    )


def refuse(record: Record, reason: str, error: str) -> NewDeadLetter:
    """Returns the dead letter of a record that is not sent: one word for it, and one sentence."""
    contents = dict(record.headers)
    partition: int | None = None
    with suppress(_RefusedError):
        partition = _partition(contents)
    return NewDeadLetter(
        service="scheduler",
        destination=_topic(contents) or "",
        partition=partition,
        **_kept(record, contents),
        reason=reason,
        error=error,
    )


def _kept(record: Record, contents: Mapping[str, bytes | None]) -> dict[str, Any]:
    """What the store keeps of a record, whether it waits or is dead."""
    return {
        "key": record.key,
        "value": record.value,
        "headers": _headers(record, contents),
        "timestamp_ms": None,
        "retry_id": _retry_id(record, contents),
        "group_id": _text(contents.get(names.GROUP_ID)),
        "origin": str(record.place),
    }


def _destination(contents: Mapping[str, bytes | None], destinations: Destinations) -> str:
    content, topic = contents.get(names.DESTINATION), _topic(contents)
    if topic is None:
        found = "is missing" if content is None else f"has {len(content)} bytes"
        raise _RefusedError(
            "unreadable",
            f"{names.DESTINATION} {found}: must be the name of a topic, at most 249 letters, "
            "digits, dots, underscores and hyphens",
        )
    refusal = destinations.refusal(topic)
    if refusal is not None:
        raise _RefusedError(
            "not-allowed", f"{names.DESTINATION} is {topic!r}, which is not allowed: {refusal}"
        )
    return topic


def _topic(contents: Mapping[str, bytes | None]) -> str | None:
    """What the header names; None: no broker would accept it as a topic."""
    topic = (contents.get(names.DESTINATION) or b"").decode("utf-8", "replace")
    return topic if is_topic_name(topic) else None


def _due_ms(contents: Mapping[str, bytes | None], now_ms: int) -> int:
    due_ms = _number(contents, names.AT_MS, INT64_MAX)
    if due_ms is None:
        raise _RefusedError(
            "unreadable", f"{names.AT_MS} is missing: must be milliseconds since 1970 in digits"
        )
    if due_ms - now_ms > _MOST_MS:
        raise _RefusedError(
            "too-far",
            f"{names.AT_MS} is {due_ms}: must be milliseconds, not microseconds, since 1970, and "
            f"at most {MOST_YEARS} years ahead",
        )
    return due_ms


def _partition(contents: Mapping[str, bytes | None]) -> int | None:
    return _number(contents, names.ORIGINAL_PARTITION, _PARTITION_MAX)


def _number(contents: Mapping[str, bytes | None], name: str, most: int) -> int | None:
    content = contents.get(name)
    if content is None:
        return None
    number = whole_number(content)
    if number is None or not 0 <= number <= most:
        raise _RefusedError(
            # Not what it is: errors are for viewers too, and headers are not.
            "unreadable",
            f"{name} has {len(content)} bytes: must be a number from 0 to {most} in digits",
        )
    return number


def _retry_id(record: Record, contents: Mapping[str, bytes | None]) -> str:
    """The record's own id; without one, that of what was read at its place."""
    # Not the producer's: programs copy headers to the several messages that they make of one.
    return _text(contents.get(names.ID)) or f"scheduler/{record_id(record)}"


def _text(content: bytes | None) -> str | None:
    """For people and their searches, not for programs: databases refuse a NUL in a text."""
    if content is None:
        return None
    return first_bytes(one_line(content.decode("utf-8", "replace")), _TEXT_LIMIT_BYTES)


def _headers(record: Record, contents: Mapping[str, bytes | None]) -> tuple[Header, ...]:
    """Those of the record, and the names of those that could not be sent as they were."""
    if not record.escaped_headers:
        return record.headers
    earlier = names.listed_names(
        (contents.get(names.ESCAPED_HEADERS) or b"").decode("utf-8", "replace") or None
    )
    listed = ",".join(dict.fromkeys((*earlier, *record.escaped_headers)))
    others = tuple(header for header in record.headers if header[0] != names.ESCAPED_HEADERS)
    return (*others, (names.ESCAPED_HEADERS, valid_unicode(listed).encode()))
