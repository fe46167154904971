"""docs/journal.md has every field of every event, with the type that it is written with."""

import json
import time
from dataclasses import fields
from datetime import datetime
from typing import Any, get_args, get_type_hints

from linear_retry.events import CloseOutcome, Event
from linear_retry.journal.entry import DEFAULT_TOPIC, Entry, encode, read_entry
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from linear_retry.scope import Partition, Scope
from tests.docs.markdown import blocks, code, page, table
from tests.journal.journal_story import GROUP, outage, write

_PAGE = "docs/journal.md"
_TYPES: tuple[type[Any], ...] = get_args(Event)
_PLACE = '`{"topic": string, "partition": integer}`'
_JSON: dict[Any, str] = {
    str: "string",
    str | None: "string or null",
    int: "integer",
    int | None: "integer or null",
    float: "number",
    bool: "true or false",
    datetime: "integer: UTC milliseconds",
    CloseOutcome: "string",
    Scope: f"{_PLACE}, null for all",
    tuple[Partition, ...]: f"list of {_PLACE}",
    tuple[str, ...]: "list of strings",
}


def event_rows() -> list[str]:
    """The table of events, as the page has to have it."""
    return [
        f"| `{kind.__name__}` | {', '.join(f'`{field.name}`' for field in fields(kind))} |"
        for kind in _TYPES
    ]


def field_rows() -> list[str]:
    """The table of their fields. What may be null in one event is told so for all."""
    found: dict[str, set[Any]] = {}
    for kind in _TYPES:
        for name, hint in get_type_hints(kind).items():
            found.setdefault(name, set()).add(hint)
    widest = {name: next(iter(hints - {int, str} or hints)) for name, hints in found.items()}
    return [f"| `{name}` | {_JSON[hint]} |" for name, hint in sorted(widest.items())]


def test_a_field_has_one_type() -> None:
    """Whoever makes a table of the entries needs one column for each."""
    hints = {(name, hint) for kind in _TYPES for name, hint in get_type_hints(kind).items()}
    assert len(field_rows()) == len({name for name, _ in hints})
    may_be_null = {("topic", str | None), ("partition", int | None), ("offset", int | None)}
    assert len(hints - may_be_null) == len(field_rows())


def test_every_event_is_there_with_its_fields() -> None:
    """A new event, or a new field, has to be written into the page."""
    missing = [row for row in event_rows() if row not in page(_PAGE).splitlines()]
    assert [] == missing
    assert len(_TYPES) == len(table(page(_PAGE), "written event"))


def test_every_field_is_there_with_its_type() -> None:
    """As JSON has it: times are whole milliseconds, places are objects."""
    missing = [row for row in field_rows() if row not in page(_PAGE).splitlines()]
    assert [] == missing
    assert len(field_rows()) == len(table(page(_PAGE), "written field"))


def test_what_every_entry_has_is_there() -> None:
    """The fields that are not the event's."""
    told = [code(row[0])[0] for row in table(page(_PAGE), "common field")]
    assert told == [
        *("v", "event_id", "at_ms", "group", "member", "host", "pid", "client_id", "event")
    ]


def test_the_example_is_an_entry() -> None:
    """What the page shows is what is written."""
    (example,) = blocks(page(_PAGE), "json")
    entry = read_entry(example.encode())
    assert isinstance(entry, Entry)
    assert json.loads(example) == json.loads(encode(entry))
    assert entry.key.decode() in page(_PAGE)


def test_the_code_runs() -> None:
    """Every block, as it is; what they make of the example, and of a journal."""
    names: dict[str, Any] = {}
    for block in blocks(page(_PAGE), "python"):
        exec(block, names)
    (example,) = blocks(page(_PAGE), "json")
    assert names["opened"](example.encode()).startswith("billing pod-1: CircuitOpened(scope=")
    assert names["opened"](b"garbled") is None
    with EmbeddedKafka() as kafka:
        kafka.create_topic(DEFAULT_TOPIC)
        write(kafka, DEFAULT_TOPIC, outage(time.time_ns() // 1_000_000))
        first, second = names["open_circuits"](kafka.bootstrap, GROUP)
    assert "pod-1: orders[0]@1042, again" == first
    assert "billing-consumer" in second
