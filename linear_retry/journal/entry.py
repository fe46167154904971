"""A journal entry: one event as JSON, with its emitter and time."""

import json
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

from linear_retry.events import CloseOutcome, Event
from linear_retry.records.json_fields import (
    Found,
    InvalidError,
    Reader,
    boolean,
    integer,
    invalid,
    many,
    number,
    one_of,
    optional,
    read_fields,
    read_object,
    readers_of,
    text,
)
from linear_retry.scope import Partition, Scope

VERSION = 1
DEFAULT_TOPIC = "linear-retry.journal"
LAST_MS = 253_402_300_799_999
"""The end of the year 9999, the latest time that an entry may have."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Event)}


@dataclass(frozen=True, slots=True)
class Process:
    """A member's host, its process there, and its librdkafka `client.id`."""

    host: str
    pid: int
    client_id: str

    def __str__(self) -> str:
        return f"{self.host}, pid {self.pid}, client.id {self.client_id}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One event, with its emitter and time.

    `instance` identifies one consumer object, and `sequence` counts its events from 1: a missing
    number is a dropped event. `member` is the consumer's `group.instance.id`, else its instance,
    and `process` is where it runs, if that is known. `at_ms` is UTC.
    """

    instance: str
    sequence: int
    at_ms: int
    group: str
    member: str
    event: Event
    process: Process | None = None

    @property
    def event_id(self) -> str:
        """The same for duplicates of an entry in the topic."""
        return f"{self.instance}/{self.sequence}"

    @property
    def key(self) -> bytes:
        """`group|member|scope`, with `consumer` if the event has no scope."""
        scope = getattr(self.event, "scope", Scope())
        return f"{self.group}|{self.member}|{scope}".encode(errors="backslashreplace")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that is not a journal entry, or is an entry of a later version."""

    reason: str


def encode(entry: Entry) -> bytes:
    """Encodes the entry as JSON, in ASCII. `read_entry` is its inverse, to the millisecond."""
    event = entry.event
    fields_of_event = {field.name: _plain(getattr(event, field.name)) for field in fields(event)}
    return json.dumps(
        {
            "v": VERSION,
            "event_id": entry.event_id,
            "at_ms": entry.at_ms,
            "group": entry.group,
            "member": entry.member,
            **({} if entry.process is None else asdict(entry.process)),
            "event": type(event).__name__,
            **fields_of_event,
        },
        separators=(",", ":"),
    ).encode()


def read_entry(value: bytes | None) -> Entry | Unreadable:
    """Reads a record of the journal's topic. Never raises, whatever the record contains.

    Unknown fields are ignored: a later version may have more.
    """
    try:
        return _entry(read_object(value))
    except InvalidError as error:
        return Unreadable(str(error))


def _plain(value: object) -> object:
    match value:
        case datetime():
            return (value - _EPOCH) // _MILLISECOND
        case Scope():
            of_key = {} if value.key is None else {"key": value.key}
            return {"topic": value.topic, "partition": value.partition, **of_key}
        case (str(topic), int(number)):
            return {"topic": topic, "partition": number}
        case tuple():
            return [_plain(item) for item in value]
        case _:
            return value


def _entry(found: Found) -> Entry:
    version = found.get("v")
    if type(version) is not int or version != VERSION:
        raise InvalidError(f"v is {version!r:.40}; this release reads {VERSION}")
    kind = _KINDS.get(text("event", found.get("event")))
    if kind is None:
        raise InvalidError(f"event is {found['event']!r:.80}, which this release does not know")
    instance, _, sequence = text("event_id", found.get("event_id")).rpartition("/")
    if not (instance and sequence.isascii() and sequence.isdigit() and len(sequence) < 20):
        invalid("event_id", found["event_id"], "an instance, / and a number")
    return Entry(
        instance,
        integer("event_id", int(sequence)),
        _moment_ms("at_ms", found.get("at_ms")),
        text("group", found.get("group")),
        text("member", found.get("member")),
        kind(**read_fields(found, _READERS[kind])),
        _process(found),
    )


def _process(found: Found) -> Process | None:
    """The process, or None if it is incomplete: that does not make the entry unreadable."""
    match found:
        case {"host": str(host), "pid": int(pid), "client_id": str(client_id)}:
            return None if isinstance(pid, bool) else Process(host, pid, client_id)
        case _:
            return None


def _moment_ms(name: str, value: object) -> int:
    at_ms = integer(name, value)
    return at_ms if 0 <= at_ms <= LAST_MS else invalid(name, value, "milliseconds since 1970")


def _datetime(name: str, value: object) -> datetime:
    return _EPOCH + _moment_ms(name, value) * _MILLISECOND


def _scope(name: str, value: object) -> Scope:
    match value:
        case {"topic": str(topic), "partition": number, "key": str(key)}:
            return Scope(topic, integer(name, number), key)
        case {"key": _}:
            return invalid(name, value, "a topic, a partition and a key")
        case {"topic": None, "partition": None}:
            return Scope()
        case {"topic": str(topic), "partition": number}:
            return Scope(topic, None if number is None else integer(name, number))
        case _:
            return invalid(name, value, "a topic and a partition")


def _partition(name: str, value: object) -> Partition:
    match value:
        case {"topic": str(topic), "partition": number}:
            return topic, integer(name, number)
        case _:
            return invalid(name, value, "a topic and a partition")


_BY_TYPE: dict[Any, Reader] = {
    str: text,
    str | None: optional(text),
    int: integer,
    int | None: optional(integer),
    float: number,
    bool: boolean,
    datetime: _datetime,
    CloseOutcome: one_of(get_args(CloseOutcome)),
    Scope: _scope,
    tuple[Partition, ...]: many(_partition),
    tuple[str, ...]: many(text),
}
# A new event's field whose type is missing above fails the import, so every entry is readable.
_READERS = {kind: readers_of(kind, _BY_TYPE) for kind in _KINDS.values()}
