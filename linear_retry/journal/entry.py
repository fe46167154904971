"""The journal's entry: one event as JSON, with who emitted it and when."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, TypeAlias, get_args, get_type_hints

from linear_retry.events import CloseOutcome, Event
from linear_retry.records.process import Process
from linear_retry.scope import Partition, Scope

VERSION = 1
DEFAULT_TOPIC = "linear-retry.journal"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Event)}


@dataclass(frozen=True, slots=True)
class Entry:
    """One event, with who said it and when.

    `instance` is one consumer's life, `sequence` counts its events from 1: where a number is
    missing, that event was dropped. `member` is the consumer's `group.instance.id`, else its
    instance, and `process` where it runs, if that is known. `at_ms` is UTC.
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
        """The same where an entry is in the topic twice."""
        return f"{self.instance}/{self.sequence}"

    @property
    def key(self) -> bytes:
        """`group|member|scope`, with `consumer` where the event is of no scope."""
        scope = getattr(self.event, "scope", Scope())
        return f"{self.group}|{self.member}|{scope}".encode(errors="backslashreplace")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that is no entry, or one that a later release has written (`is_newer`)."""

    reason: str
    is_newer: bool = False


class _InvalidError(ValueError):
    """Why it is no entry."""


class _NewerError(ValueError):
    """Why it is none that is known here."""


def encode(entry: Entry) -> bytes:
    """The entry as JSON, in ASCII. `read_entry` is its inverse, but for parts of a millisecond."""
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
    """What a record of the journal's topic says. Never raises, whatever the record is.

    Fields that are not known are passed over: a later version may have more.
    """
    if value is None:
        return Unreadable("no value")
    try:
        found = json.loads(value.decode(), parse_constant=_refuse_constant)
        return _entry(found) if isinstance(found, dict) else Unreadable("no JSON object")
    except _InvalidError as error:
        return Unreadable(str(error))
    except _NewerError as error:
        return Unreadable(str(error), is_newer=True)
    except RecursionError:
        return Unreadable("nested too deeply")
    except ValueError as error:
        return Unreadable(f"no JSON: {error}")


def _plain(value: object) -> object:
    match value:
        case datetime():
            return (value - _EPOCH) // _MILLISECOND
        case Scope():
            return {"topic": value.topic, "partition": value.partition}
        case tuple():
            return [_plain_item(item) for item in value]
        case _:
            return value


def _plain_item(item: object) -> object:
    match item:
        case (topic, number):
            return {"topic": topic, "partition": number}
        case _:
            return item


_Found: TypeAlias = Mapping[str, Any]


def _entry(found: _Found) -> Entry:
    version = found.get("v")
    if type(version) is not int or version != VERSION:
        is_newer = type(version) is int and version > VERSION
        error = _NewerError if is_newer else _InvalidError
        raise error(f"v is {version!r:.40}, and {VERSION} is known here")
    kind = _KINDS.get(_text("event", found.get("event")))
    if kind is None:
        raise _NewerError(f"event is {found['event']!r:.80}, which is not known here")
    instance, _, sequence = _text("event_id", found.get("event_id")).rpartition("/")
    if not (instance and sequence.isascii() and sequence.isdigit() and len(sequence) < 20):
        raise _InvalidError(f"event_id is {found['event_id']!r:.80}: an instance, / and a number")
    return Entry(
        instance,
        int(sequence),
        _integer("at_ms", found.get("at_ms")),
        _text("group", found.get("group")),
        _text("member", found.get("member")),
        kind(**{name: read(name, found.get(name)) for name, read in _READERS[kind].items()}),
        _process(found),
    )


def _process(found: _Found) -> Process | None:
    """All of it, or nothing: it says where to look, and spoils no entry."""
    match found:
        case {"host": str(host), "pid": int(pid), "client_id": str(client_id)}:
            return None if isinstance(pid, bool) else Process(host, pid, client_id)
        case _:
            return None


def _refuse_constant(name: str) -> NoReturn:
    raise _InvalidError(f"{name} is no JSON")


def _invalid(name: str, value: object, wanted: str) -> NoReturn:
    raise _InvalidError(f"{name} is {value!r:.80}: {wanted}")


def _text(name: str, value: object) -> str:
    return value if isinstance(value, str) else _invalid(name, value, "a text")


def _integer(name: str, value: object) -> int:
    return value if type(value) is int else _invalid(name, value, "a whole number")


def _number(name: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    return _invalid(name, value, "a finite number")


def _boolean(name: str, value: object) -> bool:
    return value if isinstance(value, bool) else _invalid(name, value, "true or false")


def _integer_or_none(name: str, value: object) -> int | None:
    return None if value is None else _integer(name, value)


def _text_or_none(name: str, value: object) -> str | None:
    return None if value is None else _text(name, value)


def _datetime(name: str, value: object) -> datetime:
    try:
        return _EPOCH + _integer(name, value) * _MILLISECOND
    except OverflowError:
        return _invalid(name, value, "milliseconds since 1970")


def _outcome(name: str, value: object) -> CloseOutcome:
    for outcome in get_args(CloseOutcome):
        if value == outcome:
            return outcome  # type: ignore[no-any-return]  # one of the literals
    return _invalid(name, value, "an outcome")


def _scope(name: str, value: object) -> Scope:
    match value:
        case {"topic": None, "partition": None}:
            return Scope()
        case {"topic": str(topic), "partition": number}:
            return Scope(topic, _integer_or_none(name, number))
        case _:
            return _invalid(name, value, "a topic and a partition")


def _partitions(name: str, value: object) -> tuple[Partition, ...]:
    return tuple(_partition(name, item) for item in _items(name, value))


def _partition(name: str, item: object) -> Partition:
    match item:
        case {"topic": str(topic), "partition": number}:
            return topic, _integer(name, number)
        case _:
            return _invalid(name, item, "a topic and a partition")


def _texts(name: str, value: object) -> tuple[str, ...]:
    return tuple(_text(name, item) for item in _items(name, value))


def _items(name: str, value: object) -> list[Any]:
    return value if isinstance(value, list) else _invalid(name, value, "a list")


_BY_TYPE: dict[Any, Callable[[str, object], Any]] = {
    str: _text,
    str | None: _text_or_none,
    int: _integer,
    int | None: _integer_or_none,
    float: _number,
    bool: _boolean,
    datetime: _datetime,
    CloseOutcome: _outcome,
    Scope: _scope,
    tuple[Partition, ...]: _partitions,
    tuple[str, ...]: _texts,
}
# A field of a new event whose type is not above ends the import: no entry is written unread.
_READERS: dict[type[Any], dict[str, Callable[[str, object], Any]]] = {
    kind: {name: _BY_TYPE[hint] for name, hint in get_type_hints(kind).items()}
    for kind in _KINDS.values()
}
