"""Reads confluent_kafka messages safely, whatever their headers are."""

from __future__ import annotations

import gc
from collections.abc import Callable
from operator import length_hint, methodcaller
from typing import Any, TypeAlias

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, Message

from linear_retry.errors import DeadLetterError
from linear_retry.records import lineage
from linear_retry.records.lineage import Line
from linear_retry.records.record import Record
from linear_retry.records.retry_headers import REPLAY_ID, SEND_TO
from linear_retry.records.text import Header, sendable
from linear_retry.scope import Partition, Place

# If a header's name is not UTF-8, `headers()` of confluent-kafka 2.16.1 returns a list *and* sets
# an exception. Called as `message.headers()` from a hot line, CPython (3.11 on) does not check for
# both, and the exception surfaces at some later line. Through methodcaller it always checks, and
# raises SystemError here.
headers_of = methodcaller("headers")

_UNREADABLE = (SystemError, UnicodeDecodeError)
_RETURNING = frozenset((REPLAY_ID, SEND_TO))
_LOST: list[Any] = [(None, None)]


def read(message: Message) -> Record:
    """Reads a `message` without an error. Its headers are made safe (`make_safe`).

    Raises `DeadLetterError` if the handler has replaced the message's value or key: the original is
    gone then, and a letter without it would be a loss.
    """
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if topic is None or partition is None or offset is None:
        raise DeadLetterError("a message without topic, partition or offset is not one from Kafka")
    timestamp_type, timestamp_ms = message.timestamp()
    headers = make_safe(message)
    return Record(
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp_ms=-1 if timestamp_type == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
        key=_bytes(message.key(), message, "key"),
        value=_bytes(message.value(), message, "value"),
        headers=tuple(headers),
        escaped_headers=headers.escaped,
    )


def written(record: Record) -> Message:
    """Returns the message that `read` reads as `record`."""
    kind = TIMESTAMP_NOT_AVAILABLE if record.timestamp_ms < 0 else TIMESTAMP_CREATE_TIME
    return Message(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        key=record.key,
        value=record.value,
        headers=list(record.headers) or None,  # librdkafka has none where the list is empty
        timestamp=(kind, record.timestamp_ms),
    )


def message_id(message: Message) -> str:
    """Returns an id that `message` has in each of its lives: first, retried and replayed.

    Keep it with what the handler does, or send it as an idempotency key: a message whose id is
    known has been handled. It begins with the producer's `retry-message-id`, which an `Outbox`
    gives, else with the place where the message was read first; the end is a digest of key and
    value. docs/dead-letters/format.md describes it. Raises `DeadLetterError` if the handler has
    replaced the value or the key.
    """
    return lineage.message_id(read(message))


def timestamp_ms_of(message: Message) -> int | None:
    """When it was created, or written by the broker, as its topic says; None: it has no time."""
    timestamp_type, timestamp_ms = message.timestamp()
    return None if timestamp_type == TIMESTAMP_NOT_AVAILABLE else timestamp_ms


def partition_of(message: Message) -> Partition:
    """Returns the key under which everything about this message's partition is kept."""
    return message.topic(), message.partition()  # type: ignore[return-value]  # set on a consumed one


def offset_of(message: Message) -> int:
    """Returns the offset of a message that was consumed."""
    return message.offset()  # type: ignore[return-value]  # set on a consumed one


def place_of(message: Message) -> Place:
    """Returns the place of a consumed message."""
    return Place(message.topic(), message.partition(), message.offset())  # type: ignore[arg-type]  # set on a consumed one


def read_fresh(message: Message) -> Record:
    """Reads a message that no handler has touched; much faster than `read`.

    Its names are UTF-8 and its values bytes or null, so its headers can be sent unchanged. If a
    name is not UTF-8, the first `headers()` raises: this one, or an earlier one that made it safe.
    """
    try:
        found = headers_of(message)
    except _UNREADABLE as error:
        make_safe(message, error)
        return read(message)
    timestamp_type, timestamp_ms = message.timestamp()
    return Record(
        message.topic(),  # type: ignore[arg-type]  # None only in a message created by hand
        message.partition(),  # type: ignore[arg-type]
        message.offset(),  # type: ignore[arg-type]
        -1 if timestamp_type == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
        message.key(),
        message.value(),
        () if found is None else tuple(found),
        found.escaped if isinstance(found, _SafeHeaders) else (),
    )


KeyOf: TypeAlias = Callable[[Message], bytes | None]
"""Gives a message the key in whose order it is handled."""


def key_of(message: Message) -> bytes | None:
    """Its key; None also where a handler has put something else there, which ends the consumer."""
    key: object = message.key()
    return key if isinstance(key, bytes) else None


def safe_headers(message: Message) -> list[Header] | None:
    """Its headers; from then on the message's own `headers()` is safe, too."""
    found: list[Header] | None
    try:
        found = headers_of(message)
    except _UNREADABLE as error:
        found = make_safe(message, error)
    return found


def size_bytes(message: Message) -> int:
    """Its size with key and headers, which may be the largest part of it."""
    found = safe_headers(message)
    headers = sum(len(name) + len(value or b"") for name, value in found) if found else 0
    return len(message) + len(message.key() or b"") + headers


def foreign_group(message: Message, line: Line) -> str | None:
    """Returns the group that `message` was replayed for, if this line must skip it; else None.

    Must be called before the handler gets the message: the handler's own `headers()` is then safe
    too. Costs next to nothing for a message without headers.
    """
    try:
        found = headers_of(message)
        if found is None or _is_sound_and_not_replayed(found):
            return None
    except _UNREADABLE as error:
        make_safe(message, error)
    return lineage.foreign_group(read(message), line)


def foreign_or_unfit(message: Message, line: Line) -> str | DeadLetterError | None:
    """As `foreign_group`, of a message in a retry topic: or why it cannot be retried."""
    record = read_fresh(message)
    foreign = lineage.foreign_group(record, line)
    if foreign is not None:
        return foreign
    if line.delay_ms(record.topic) is None:
        return DeadLetterError(
            f"{record.place} is in a topic whose name ends in no delay as RetryTopics writes it, "
            "such as 1m for 60s: when it is due is unknown; send it to a retry topic"
        )
    try:
        lineage.check_retried(record)
    except DeadLetterError as error:
        return error
    return None


def have_no_headers(messages: list[Message]) -> bool:
    """Whether none of these has headers, so that none is a replay: one check per batch.

    A message with unreadable headers is made safe (`make_safe`).
    """
    unseen = iter(messages)
    try:
        # `map` checks for a pending exception after each call, as `methodcaller` does.
        return not any(map(Message.headers, unseen))
    except _UNREADABLE as error:
        # Only this first error has the bad name, so keep it now.
        message = messages[len(messages) - length_hint(unseen) - 1]
        make_safe(message, error)
        return False


def _is_sound(found: Any) -> bool:
    """Whether it is a list of pairs without a null pointer: see `_pair`."""
    return type(found) is list and len(gc.get_referents(*found)) == 2 * len(found)


def _is_sound_and_not_replayed(found: Any) -> bool:
    """Recognises the usual headers in a tenth of the time that reading them takes."""
    if not _is_sound(found):
        return False
    names = [part for part in gc.get_referents(*found) if type(part) is str]
    return _RETURNING.isdisjoint(names)


def make_safe(message: Message, error: BaseException | None = None) -> _SafeHeaders:
    """Returns sendable headers of `message`, and makes `message.headers()` return them too.

    After the first `headers()` of a message with a name that is not UTF-8, the list that it keeps
    has tuples with a null pointer for that name: touching one crashes the process. If one name is
    bad, nothing is lost; if more are, those names are lost (each becomes `*unreadable*`), and their
    values are kept. The client library truncates a name at a NUL; that cannot be detected. `error`
    is what the first call raised, if the caller made it: only that has the name.
    """
    try:
        found: Any = headers_of(message)
    except _UNREADABLE as raised:
        if error is None:
            return make_safe(message, raised)
        found = None
    if isinstance(found, _SafeHeaders):
        return found
    if found is None and error is not None:
        found, error = _LOST, None
    pairs = [_pair(entry) for entry in _entries(found)]
    if [name for name, _ in pairs].count(None) == 1:
        bad = _undecodable_name(error)
        pairs = [(bad if name is None else name, value) for name, value in pairs]
    headers = _SafeHeaders(*sendable(pairs))
    if headers.escaped:
        message.set_headers(headers)  # type: ignore[arg-type]  # a list, but only read
    return headers


class _SafeHeaders(list[Header]):
    """Headers that can be sent, with the names of those that had to change.

    A separate type, because the message keeps the list: a second read also learns what had to
    change, and no header is escaped twice.
    """

    def __init__(self, headers: tuple[Header, ...], escaped: tuple[str, ...]) -> None:
        super().__init__(headers)
        self.escaped = escaped


def _undecodable_name(error: BaseException | None) -> bytes | None:
    while error is not None:
        if isinstance(error, UnicodeDecodeError):
            return error.object
        error = error.__cause__
    return None


def _entries(found: Any) -> list[Any]:
    match found:
        case None:
            return []
        case list() | tuple():
            return list(found)
        case _:  # maybe set by the handler: `set_headers` takes anything
            return [(None, found)]


def _pair(entry: Any) -> tuple[object, object]:
    """Returns name and value; None for a name that is a null pointer."""
    if type(entry) is tuple and len(entry) == 2:
        # Only the garbage collector's view skips null pointers; indexing, unpacking, printing or
        # comparing such a tuple is a segfault.
        present = gc.get_referents(entry)
        return (
            (entry[0], entry[1]) if len(present) == 2 else (None, present[0] if present else None)
        )
    match entry:
        case [name, value]:
            return name, value
        case _:
            return None, entry


def _bytes(content: object, message: Message, what: str) -> bytes | None:
    if content is None or isinstance(content, bytes):
        return content
    raise DeadLetterError(
        f"{place_of(message)}: {what} is {type(content).__name__}, but Kafka gave bytes: the "
        "handler has replaced it, and a dead letter needs the original; do not call set_key or "
        "set_value in a handler"
    )
