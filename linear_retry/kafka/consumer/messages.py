"""Reads confluent_kafka messages safely, whatever their headers are."""

from __future__ import annotations

import gc
from operator import length_hint, methodcaller
from typing import Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from linear_retry.errors import DeadLetterError
from linear_retry.records import dead_letter
from linear_retry.records.record import Record
from linear_retry.records.retry_headers import REPLAY_ID
from linear_retry.records.text import Header, sendable
from linear_retry.scope import Place

# Where a header's name is not UTF-8, `headers()` of confluent-kafka 2.16.1 returns a list *and*
# sets an exception. Called as `message.headers()` from a hot line, CPython (3.11 on) does not look
# for both, and the exception comes up at some later line. Called through methodcaller it does look,
# each time, and raises SystemError here.
headers_of = methodcaller("headers")

_UNREADABLE = (SystemError, UnicodeDecodeError)
_LOST: list[Any] = [(None, None)]


def read(message: Message) -> Record:
    """What `message`, one without an error, is. Its headers are made safe (`make_safe`).

    Raises `DeadLetterError` where the handler has put another value or key into the message: what
    came from Kafka is gone then, and a letter without it would be a loss.
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


def place_of(message: Message) -> Place:
    """Where a consumed message is."""
    return Place(message.topic(), message.partition(), message.offset())  # type: ignore[arg-type]  # set on a consumed one


def read_fresh(message: Message) -> Record:
    """As `read`, of a message that nobody has touched since it came from Kafka: much faster.

    What came has only names that were UTF-8 and values that are bytes or null, so headers may be
    sent as they are. Where a name was not, the first `headers()`, which is this one, raises.
    """
    try:
        found = headers_of(message)
    except _UNREADABLE as error:
        make_safe(message, error)
        return read(message)
    timestamp_type, timestamp_ms = message.timestamp()
    return Record(
        message.topic(),  # type: ignore[arg-type]  # None only in a message made by hand
        message.partition(),  # type: ignore[arg-type]
        message.offset(),  # type: ignore[arg-type]
        -1 if timestamp_type == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
        message.key(),
        message.value(),
        () if found is None else tuple(found),
    )


def foreign_group(message: Message, group_id: str) -> str | None:
    """The group that `message` was replayed for, if this group is to pass it over; else None.

    Call it before the handler sees the message: then the handler's own `headers()` is safe too.
    Takes no time worth naming for a message without headers.
    """
    try:
        found = headers_of(message)
        if found is None or _is_sound_and_not_replayed(found):
            return None
    except _UNREADABLE as error:
        make_safe(message, error)
    return dead_letter.foreign_group(read(message), group_id)


def have_no_headers(messages: list[Message]) -> bool:
    """Whether none of these has headers, so that none was replayed: one look for a whole batch.

    A message whose headers cannot be read as they are is made safe, as `make_safe` does.
    """
    unseen = iter(messages)
    try:
        # `map` looks after each call whether an exception is pending, as `methodcaller` does.
        return not any(map(Message.headers, unseen))
    except _UNREADABLE as error:
        # The bad name is in this first error only, so now is the moment to keep it.
        message = messages[len(messages) - length_hint(unseen) - 1]
        make_safe(message, error)
        return False


def _is_sound(found: Any) -> bool:
    """A list of pairs without a null pointer: see `_pair`."""
    return type(found) is list and len(gc.get_referents(*found)) == 2 * len(found)


def _is_sound_and_not_replayed(found: Any) -> bool:
    """The usual headers, told apart in a tenth of the time that reading them takes."""
    if not _is_sound(found):
        return False
    names = [part for part in gc.get_referents(*found) if type(part) is str]
    return REPLAY_ID not in names


def make_safe(message: Message, error: BaseException | None = None) -> _SafeHeaders:
    """The headers of `message` as they may be sent; these are then what `message.headers()` gives.

    After the first `headers()` of a message with a name that is not UTF-8, the list that it keeps
    has tuples with a null pointer for that name: touching it ends the process. Where one name is
    bad, nothing is lost; where more are, these names are (each is `*unreadable*` then), and their
    values stay. A name with a NUL comes from the client library cut there; that cannot be seen.
    `error` is what that first call raised, where it was the caller's: the name is in there only.
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
        message.set_headers(headers)  # type: ignore[arg-type]  # a list of less is one to read
    return headers


class _SafeHeaders(list[Header]):
    """Headers that may be sent, with the names of those that had to change.

    A list of its own type, because the message keeps it: whoever reads the message again learns
    again what had to change, and no header is escaped twice.
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
        case _:  # the handler may have put it there; `set_headers` takes anything
            return [(None, found)]


def _pair(entry: Any) -> tuple[object, object]:
    """Name and value; None for a name where there is a null pointer."""
    if type(entry) is tuple and len(entry) == 2:
        # The garbage collector's view is the one that passes over null pointers; indexing,
        # unpacking, printing or comparing such a tuple is a segfault.
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
        "handler has replaced it, and a dead letter must keep what came; do not call set_key or "
        "set_value in a handler"
    )
