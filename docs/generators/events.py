"""Describes the events, and how the journal writes them, from their classes."""

import inspect
import logging
from collections.abc import Iterator
from dataclasses import fields
from datetime import datetime
from typing import Any, get_args, get_type_hints

from docs.generators.markdown import cell, codes, table
from linear_retry.events import CloseOutcome, Event
from linear_retry.log.lines import level_of
from linear_retry.scope import Partition, Scope

EVENTS: tuple[type[Any], ...] = get_args(Event)
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
    Scope: f"{_PLACE}, null for all; of a key, also `key`",
    tuple[Partition, ...]: f"list of {_PLACE}",
    tuple[str, ...]: "list of strings",
}


def events() -> str:
    """Describes every event: its fields, when it is emitted, and its log level."""
    return table(("event", "fields", "when", "log level"), map(_event_row, EVENTS))


def _event_row(event: type[Any]) -> tuple[str, ...]:
    names = codes(field.name for field in fields(event))
    # The level depends on the type alone.
    level = logging.getLevelName(level_of(object.__new__(event)))
    return f"`{event.__name__}`", names, cell(inspect.getdoc(event) or ""), level


def journal_fields() -> str:
    """Describes every field of any event as the journal writes it."""
    return table(("field", "JSON", "in"), _field_rows())


def _field_rows() -> Iterator[tuple[str, ...]]:
    found = hints_by_field()
    for name in sorted(found):
        # A field that may be null in one event is described so for all.
        (hint,) = {*found[name].values()} - {int, str} or {*found[name].values()}
        yield f"`{name}`", _JSON[hint], codes(event.__name__ for event in found[name])


def hints_by_field() -> dict[str, dict[type[Any], Any]]:
    """Returns, for each field, the events that have it, with its type there."""
    found: dict[str, dict[type[Any], Any]] = {}
    for event in EVENTS:
        for name, hint in get_type_hints(event).items():
            found.setdefault(name, {})[event] = hint
    return found
