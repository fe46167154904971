"""The identity of messages, which replayed and retried ones keep.

Ids are given here and nowhere else; docs/dead-letters/format.md describes them.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Literal, TypeAlias

from linear_retry.errors import DeadLetterError
from linear_retry.records import retry_headers as names
from linear_retry.records.record import Record
from linear_retry.records.retry_headers import read_headers
from linear_retry.records.text import ErrorText, valid_unicode

Life: TypeAlias = Literal["first", "replayed", "retried"]
"""The kind of a record for its reader: a new message, a replayed one, or one in the retry
topics."""


DIGEST_DIGITS = 12
"""Hex digits of SHA-256: two records of one place agree in them once in 10^14."""


def _no_delay_ms(_: str) -> int | None:
    return None


@dataclass(frozen=True, slots=True)
class Line:
    """A reader: the group that letters, journal and `retry-group-id` name, and its retry topics.

    `delay_ms` returns the wait of one of its retry topics, and None for any other topic. A live
    line and its retry line are one `Line`, though two Kafka consumer groups. `reads_all`: it keeps
    the records and works on none, so that none is another group's.
    """

    group_id: str
    delay_ms: Callable[[str], int | None] = _no_delay_ms
    reads_all: bool = False


@dataclass(frozen=True, slots=True)
class Hop:
    """One wait in a retry topic: a step (1-based; 0: unknown) of the strategy with this label.

    `retry_at_ms` is for people: the wait itself is the topic's delay, by the broker's clock.
    """

    topic: str
    step: int
    strategy: str
    retry_at_ms: int
    is_marked: bool = False
    """Whether its record has the `original-received-*` headers too."""
    short_ms: int = 0
    """How much longer it was to wait than its topic does, the longest."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """The identity of a message, and its history. `hop` and `error` are its last ones."""

    retry_id: str
    generation: int
    destination: str
    original_partition: int
    original_offset: int
    original_timestamp_ms: int
    escaped_headers: tuple[str, ...] = ()
    failures: int = 0
    first_failure_ms: int = -1
    last_failure_ms: int = -1
    error: ErrorText | None = None
    hop: Hop | None = None
    replay_id: str | None = None
    replay_count: int | None = None


def content_digest(key: bytes | None, value: bytes | None, timestamp_ms: int = -1) -> str:
    """Returns 12 hex digits that tell key, value and time from others'. Null is not empty."""
    sizes = [-1 if part is None else len(part) for part in (key, value)]
    digest = sha256(b"%d %d %d " % (timestamp_ms, *sizes))
    digest.update(key or b"")
    digest.update(value or b"")
    return digest.hexdigest()[:DIGEST_DIGITS]


def record_id(record: Record) -> str:
    """Returns `topic/partition/offset/digest`: no other record has this id.

    A place alone, with the producer's time even, is another record's too once the topic was deleted
    and made again.
    """
    digest = content_digest(record.key, record.value, record.timestamp_ms)
    return f"{record.topic}/{record.partition}/{record.offset}/{digest}"


def message_id(record: Record) -> str:
    """Returns the id that the message has in each of its lives: first, retried and replayed.

    It is the `record_id` of its first life; or the producer's id where the message has one, and a
    digest, since programs copy headers to the several messages that they make of one.
    """
    contents = dict(record.headers)
    given = contents.get(names.MESSAGE_ID)
    if given:
        digest = content_digest(record.key, record.value)
        return valid_unicode(f"{given.decode('utf-8', 'replace')}/{digest}")
    # A handler gets what its line has read: a retry is from one of its retry topics.
    if life_of(contents, record.topic, in_retry_topic=True) != "first":
        with suppress(DeadLetterError):
            return _first_id(record, read_headers(contents, _PLACE))
    return valid_unicode(record_id(record))


def life_of(contents: Mapping[str, bytes | None], topic: str, *, in_retry_topic: bool) -> Life:
    """Returns the kind of a record with these headers, read from `topic`.

    With any other headers of ours it is an ordinary message: they may have been copied from
    another one. `in_retry_topic`: `topic` is one of the reader's retry topics.
    """
    if contents.get(names.SEND_TO) == names.RETRY.encode() and (
        in_retry_topic or contents.get(names.DESTINATION) == topic.encode()
    ):
        return "retried"
    return "first" if contents.get(names.REPLAY_ID) is None else "replayed"


def is_returned(contents: Mapping[str, bytes | None], topic: str) -> bool:
    """Whether the message was replayed or retried back to `topic`, where it came from."""
    is_home = contents.get(names.DESTINATION) == topic.encode()
    return is_home and life_of(contents, topic, in_retry_topic=False) != "first"


def foreign_group(record: Record, line: Line) -> str | None:
    """Returns the group `record` was replayed or retried for, if this line must skip it; else None.

    It must in the line's own retry topics, and in the message's `retry-destination`: this group has
    read the original there. In any other topic a replayed message is for every reader.
    """
    if line.reads_all:
        return None
    contents = dict(record.headers)
    in_retry_topic = line.delay_ms(record.topic) is not None
    if not in_retry_topic and not is_returned(contents, record.topic):
        return None
    try:
        found: str = read_headers(contents, (_REQUIRED["group_id"],))["group_id"]
    except DeadLetterError:
        return None
    return None if found == line.group_id else found


def check_retried(record: Record) -> None:
    """Raises `DeadLetterError` for a record in a retry topic that no consumer has sent there.

    To retry it would make it a new message, with the retry topic as its origin.
    """
    contents = dict(record.headers)
    try:
        if life_of(contents, record.topic, in_retry_topic=True) != "retried":
            found = contents.get(names.SEND_TO)
            raise DeadLetterError(f"{names.SEND_TO} is {found!r}, must be {names.RETRY!r}")
        _identity(contents)
    except DeadLetterError as error:
        why = str(error).removeprefix("not a dead letter: ")
        raise DeadLetterError(
            f"{record.place} in a retry topic is not a retry: {why}; only RetryTopics and dlq "
            "replay may write there"
        ) from None


def lineage_of(record: Record, line: Line) -> Lineage:
    """Reads the identity of a message; assigns a new one if it is unreadable. Never raises."""
    contents = dict(record.headers)
    in_retry_topic = line.delay_ms(record.topic) is not None
    if life_of(contents, record.topic, in_retry_topic=in_retry_topic) == "first":
        return _new(record, line.group_id)
    try:
        return _known(contents, record, line)
    except DeadLetterError:
        # All or nothing: an identity mixed from two messages would be that of neither.
        return _new(record, line.group_id)


# What a letter keeps of the first time that a message was dead-lettered; all are required.
_ORIGIN = ("destination", "original_partition", "original_offset", "original_timestamp_ms")
_HEADERS = {each.field: each for each in names.RETRY_HEADERS}
_REQUIRED = {
    field: each._replace(default=None, may_be_missing=False) for field, each in _HEADERS.items()
}
_PLACE = tuple(_REQUIRED[field] for field in _ORIGIN)
_IDENTITY = (_REQUIRED["generation"], *_PLACE)
_PARTS_OF_ERROR = ("type", "message", "stack")
_IDENTITY_WITH_ID = (_REQUIRED["retry_id"], *_IDENTITY)


def _new(record: Record, group_id: str) -> Lineage:
    return Lineage(
        retry_id=valid_unicode(f"{group_id}/{record_id(record)}"),
        generation=1,
        destination=record.topic,
        original_partition=record.partition,
        original_offset=record.offset,
        original_timestamp_ms=record.timestamp_ms,
    )


def _identity(contents: Mapping[str, bytes | None]) -> dict[str, Any]:
    """Who the message is; without an id where it is for all groups. Raises `DeadLetterError`."""
    is_for_all = contents.keys().isdisjoint((names.ID, names.GROUP_ID))
    return read_headers(contents, _IDENTITY if is_for_all else _IDENTITY_WITH_ID)


def _first_id(record: Record, origin: Mapping[str, Any]) -> str:
    """The `record_id` of the message in its first life, which was at `origin`."""
    topic, partition, offset, timestamp_ms = (origin[field] for field in _ORIGIN)
    first = replace(
        record, topic=topic, partition=partition, offset=offset, timestamp_ms=timestamp_ms
    )
    return valid_unicode(record_id(first))


def _known(contents: Mapping[str, bytes | None], record: Record, line: Line) -> Lineage:
    """Reads the identity in the headers. Raises `DeadLetterError` if it is incomplete."""
    identity = _identity(contents)
    if "retry_id" not in identity:
        # The message goes to every group: with one id, two groups' letters would count as one.
        identity["retry_id"] = valid_unicode(f"{line.group_id}/{_first_id(record, identity)}")
    listed = names.listed_names(_optional(contents, "escaped_headers"))
    lineage = Lineage(
        **identity,
        escaped_headers=tuple(name for name in listed if name in contents),
        replay_id=_optional(contents, "replay_id"),
        replay_count=_optional(contents, "replay_count"),
    )
    in_retry_topic = line.delay_ms(record.topic) is not None
    if life_of(contents, record.topic, in_retry_topic=in_retry_topic) == "replayed":
        read_headers(contents, (_REQUIRED["replay_id"],))
        _check_generation(lineage)
        return lineage
    if lineage.replay_id is not None:
        _check_generation(lineage)
    hop = Hop(
        record.topic,
        _optional(contents, "step") or 0,
        _optional(contents, "strategy") or "",
        _optional(contents, "retry_at_ms") or 0,
    )
    return replace(
        lineage,
        hop=hop,
        failures=_optional(contents, "failures"),
        first_failure_ms=_optional(contents, "first_failure_ms"),
        last_failure_ms=_optional(contents, "last_failure_ms"),
        error=_error(contents),
    )


def _check_generation(lineage: Lineage) -> None:
    """Raises `DeadLetterError` if the next letter of a replayed message could not be read."""
    if lineage.generation == names.GENERATION_MAX:
        raise DeadLetterError(f"generation {lineage.generation} is the last that there is")


def _error(contents: Mapping[str, bytes | None]) -> ErrorText | None:
    kind, *texts = (_optional(contents, f"exception_{part}") for part in _PARTS_OF_ERROR)
    return None if kind is None else ErrorText(kind, *texts)


def _optional(contents: Mapping[str, bytes | None], field: str) -> Any:
    """Reads an optional header; returns its default if it is unreadable."""
    header = _HEADERS[field]
    try:
        return header.read(contents.get(header.name))
    except ValueError:
        return header.default
