"""Formats letters for tables and as JSON."""

import base64
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from linear_retry.cli.output import contents
from linear_retry.dlq import Filter, Letter, State
from linear_retry.dlq.letters.letter import NONE
from linear_retry.records import printable

HEAD = ("when", "id", "origin", "reason", "failures", "exception", "state")
PAYLOAD_HEAD = ("key", "value")

IN_RETRY = (
    "state retry: messages of a retry topic, which its retry line handles when they are due; "
    "`linear-retry topics status` says how many still wait"
)

_UNLISTED = ("key", "value", "headers", "escaped_headers", "exception_stack")


def cells(letter: Letter, state: State) -> tuple[str, ...]:
    """Returns the cells of `HEAD`, each in one line without control characters."""
    place, why = letter.origin, letter.reason
    row = (
        printable.exact_moment(letter.timestamp_ms),
        name(letter),
        "-" if place is None else str(place),
        why or ("not a dead letter" if letter.format == NONE else "-"),
        "-" if letter.failures is None else str(letter.failures),
        _exception(letter),
        state.value,
    )
    # One pass over all cells: this function's speed decides how fast a million letters are listed.
    return row if "".join(row).isprintable() else tuple(map(printable.in_one_line, row))


def payload_cells(letter: Letter) -> tuple[str, ...]:
    """Returns the cells of `PAYLOAD_HEAD`, truncated; `--json` has all of it."""
    return printable.one_line(contents.shown(letter.key)), printable.one_line(
        contents.shown(letter.value)
    )


def name(letter: Letter) -> str:
    """Returns its id, with the generation if that is not the first."""
    return letter.id if letter.generation == 1 else letter.resolution_key


def _exception(letter: Letter) -> str:
    """Returns type and message, at most 200 characters; or the problem, if it is not a letter."""
    kind, message = letter.exception_type, letter.exception_message
    if letter.problem is not None:
        return printable.cut(letter.problem)
    if kind is not None:
        kind = kind.removeprefix("builtins.")
    return printable.cut(f"{kind}: {message}" if kind and message else kind or message or "-")


def as_json(letter: Letter, state: State, *, payload: bool) -> dict[str, Any]:
    """Returns everything but headers and stack; key and value only with `payload`."""
    values = letter._asdict()
    for what in _UNLISTED:
        del values[what]
    origin = None if letter.origin is None else letter.origin._asdict()
    values |= {"state": state.value, "origin": origin}
    if payload:
        values |= {**content("key", letter.key), **content("value", letter.value)}
    return values


def content(what: str, found: bytes | None) -> dict[str, str | None]:
    """Returns bytes for JSON: as text if they are UTF-8, else as base64 under another name."""
    if found is None:
        return {what: None}
    try:
        return {what: found.decode()}
    except UnicodeDecodeError:
        return {f"{what}_base64": base64.b64encode(found).decode()}


def no_such_letter(letter_ids: Iterable[str], topic: str) -> str:
    """Returns the message if no letter in `topic` has one of these ids."""
    ids = ", ".join(map(printable.one_line, letter_ids))
    return f"no letter {ids} in {topic}; see `linear-retry dlq list`"


def no_letters(topic: str, letter_filter: Filter) -> str:
    """Returns the message if no letter is selected."""
    which = " or ".join(letter_filter.states)
    is_chosen = replace(letter_filter, states=(), limit=None) != Filter()
    return f"no {which and f'{which} '}letters in {topic}{' that match' if is_chosen else ''}"
