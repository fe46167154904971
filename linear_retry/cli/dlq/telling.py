"""How is a letter written: as a row of a table, and as an object of JSON?"""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from linear_retry.dlq import Letter, State
from linear_retry.dlq.letter import NONE

HEAD = ("when", "id", "origin", "reason", "failures", "exception", "state")
PAYLOAD_HEAD = ("key", "value")

_CHARACTERS = 200
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # the years 1 to 9999


def cells(letter: Letter, state: State) -> tuple[str, ...]:
    """What `HEAD` names, each in one line without control characters."""
    place, why = letter.origin, letter.reason
    row = (
        moment(letter.timestamp_ms),
        name(letter),
        "-" if place is None else str(place),
        why or ("no dead letter" if letter.format == NONE else "-"),
        "-" if letter.failures is None else str(letter.failures),
        _exception(letter),
        state.value,
    )
    # One look for all: a million letters are listed at the speed of this function.
    return row if "".join(row).isprintable() else tuple(map(_in_one_line, row))


def payload_cells(letter: Letter) -> tuple[str, ...]:
    """What `PAYLOAD_HEAD` names, cut: `--json` has all of it."""
    return one_line(shown(letter.key)), one_line(shown(letter.value))


def shown(found: bytes | None) -> str:
    """Text where it is UTF-8; else what it is like."""
    if found is None:
        return "null"
    try:
        return found.decode()
    except UnicodeDecodeError:
        return f"0x{found[:_CHARACTERS].hex()}"


def name(letter: Letter) -> str:
    """Its id, with the generation where that is not the first."""
    return letter.id if letter.generation == 1 else letter.resolution_key


def _exception(letter: Letter) -> str:
    """Type and message, at most 200 characters; what is wrong, where it is no letter."""
    kind, message = letter.exception_type, letter.exception_message
    if letter.problem is not None:
        return _cut(letter.problem)
    return _cut(f"{kind}: {message}" if kind and message else kind or message or "-")


def as_json(letter: Letter, state: State, *, payload: bool) -> dict[str, Any]:
    """All but headers and stack; key and value only with `payload`."""
    place = letter.origin
    said: dict[str, Any] = {
        "id": letter.id,
        "generation": letter.generation,
        "state": state.value,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp_ms": letter.timestamp_ms,
        "format": letter.format,
        "origin": None
        if place is None
        else {
            "topic": place.topic,
            "partition": place.partition,
            "offset": place.offset,
            "timestamp_ms": place.timestamp_ms,
        },
        "group_id": letter.group_id,
        "reason": letter.reason,
        "failures": letter.failures,
        "exception_type": letter.exception_type,
        "exception_message": letter.exception_message,
        "problem": letter.problem,
    }
    if payload:
        said |= {**content("key", letter.key), **content("value", letter.value)}
    return said


def content(what: str, found: bytes | None) -> dict[str, str | None]:
    """Bytes in JSON: text where they are UTF-8, else in base64, which the name then says."""
    if found is None:
        return {what: None}
    try:
        return {what: found.decode()}
    except UnicodeDecodeError:
        return {f"{what}_base64": base64.b64encode(found).decode()}


def lines(text: str) -> list[str]:
    """`text` in lines, each safe to print."""
    return [safe(line) for line in text.split("\n")]


def safe(text: str) -> str:
    """`text` without what moves a cursor, or changes a terminal: a message may hold anything."""
    return text if text.isprintable() else "".join(map(_printable, text.replace("\t", "    ")))


def moment(timestamp_ms: int) -> str:
    """A time of Kafka's in UTC, to the second."""
    if timestamp_ms == -1:
        return "-"
    if not _FIRST_MS <= timestamp_ms <= _LAST_MS:
        return f"{timestamp_ms} ms"
    return _second(timestamp_ms // 1000)


@lru_cache(maxsize=4096)
def _second(at_s: int) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC).isoformat(' ')[:19]}Z"


def one_line(text: str) -> str:
    """`text` as it can stand in a table: short, without anything that moves a cursor."""
    return _in_one_line(_cut(text))


def _cut(text: str) -> str:
    return text if len(text) <= _CHARACTERS else text[: _CHARACTERS - 1] + "…"


def _in_one_line(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character.isspace() else "\ufffd"
