"""How is a letter written: as a row of a table, and as an object of JSON?"""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime
from typing import Any

from linear_retry.dlq import Letter, State

HEAD = ("when", "id", "origin", "reason", "failures", "exception", "state")
PAYLOAD_HEAD = ("key", "value")

_UNPRINTABLE = re.compile(r"[^\x20-\x7e\xa0-\U0010ffff]|[\ud800-\udfff\u2028\u2029\u202a-\u202e]")
_EXCEPTION_CHARACTERS = 200
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # the years 1 to 9999


def cells(letter: Letter, state: State) -> tuple[str, ...]:
    """What `HEAD` names, each in one line without control characters."""
    return (
        moment(letter.timestamp_ms),
        one_line(name(letter)),
        origin(letter),
        reason(letter),
        "-" if letter.failures is None else str(letter.failures),
        exception(letter),
        state.value,
    )


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
        return f"0x{found[:_EXCEPTION_CHARACTERS].hex()}"


def name(letter: Letter) -> str:
    """Its id, with the generation where that is not the first."""
    return letter.id if letter.generation == 1 else letter.resolution_key


def origin(letter: Letter) -> str:
    """`topic[partition]@offset`."""
    return "-" if letter.origin is None else one_line(str(letter.origin))


def reason(letter: Letter) -> str:
    return one_line(letter.reason or ("no dead letter" if letter.format == "none" else "-"))


def exception(letter: Letter) -> str:
    """Type and message in one line of at most 200 characters; what is wrong, where it is none."""
    if letter.problem is not None:
        return one_line(letter.problem)
    texts = [text for text in (letter.exception_type, letter.exception_message) if text]
    return one_line(": ".join(texts)) or "-"


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
    return text if text.isprintable() else _UNPRINTABLE.sub("\ufffd", text.replace("\t", "    "))


def moment(timestamp_ms: int) -> str:
    """A time of Kafka's in UTC, to the second."""
    if timestamp_ms == -1:
        return "-"
    if not _FIRST_MS <= timestamp_ms <= _LAST_MS:
        return f"{timestamp_ms} ms"
    whole_s = timestamp_ms // 1000
    # Three times as fast as `strftime`.
    return f"{datetime.fromtimestamp(whole_s, UTC).isoformat(' ')[:19]}Z"


def one_line(text: str) -> str:
    """`text` as it can stand in a table: short, without anything that moves a cursor."""
    cut = text if len(text) <= _EXCEPTION_CHARACTERS else text[: _EXCEPTION_CHARACTERS - 1] + "…"
    return cut if cut.isprintable() else _UNPRINTABLE.sub(" ", cut)
