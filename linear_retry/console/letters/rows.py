"""Letters and resolutions as rows of an index, bounded whatever they hold."""

import json
import re
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple

from linear_retry.console.letters import schema
from linear_retry.dlq.letters.letter import Letter
from linear_retry.dlq.reading.resolutions import decoded
from linear_retry.records.record import Record
from linear_retry.records.retry_headers import HEADER_NAMES, LAST_FAILURE_MS
from linear_retry.records.text import one_line, valid_unicode, whole_number

_WHY_CHARACTERS = 500
LAST_MS = 253_402_300_799_999  # the end of the year 9999
_VARYING = re.compile(
    r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
    r"|\b(?=[a-fA-F]*\d)[0-9a-fA-F]{12,}\b|0x[0-9a-fA-F]+|\d+"
)
_BY_PLACE = re.compile(rb"foreign/[a-zA-Z0-9._-]+/([0-9]{1,10})/([0-9]{1,18})")

NUMBER = "#"
"""Stands in the pattern of a message for numbers and ids."""


class Kind(NamedTuple):
    """What letters have in common. Empty: unknown."""

    group_id: str
    origin: str
    reason: str
    error: str
    """The exception's type."""
    pattern: str
    """Its message, with `#` for numbers and ids."""


OTHERS = Kind("", "", "", "", "too many different errors to group")
"""Its pattern is that of new kinds once there are many; all of it that of new ones at the end."""


def kind_of(letter: Letter) -> Kind:
    """Returns what the letter has in common with others."""
    return Kind(
        group_id=cut(letter.group_id or ""),
        origin="" if letter.origin is None else cut(letter.origin.topic),
        reason=cut(letter.reason or ""),
        error=cut(letter.exception_type or ""),
        pattern=pattern_of(letter.exception_message or ""),
    )


def pattern_of(message: str) -> str:
    """Returns the message with `#` for what differs between letters of one error."""
    start = message[: 4 * schema.PATTERN_CHARACTERS]
    return one_line(" ".join(_VARYING.sub(NUMBER, start).split()))[: schema.PATTERN_CHARACTERS]


def row_of(letter: Letter, kind_id: int) -> tuple[Any, ...]:
    """Returns the letter as the parameters of `writing.ADD`."""
    origin = letter.origin
    return (
        letter.partition,
        letter.offset,
        letter.timestamp_ms,
        _failed_ms(letter),
        cut(letter.id),
        digest(letter.id.encode("utf-8", "replace")),
        letter.generation,
        kind_id,
        "retry" if letter.is_retry else None,
        None if letter.key is None else cut_key(letter.key),
        error_text(letter),
        None if origin is None else origin.partition,
        None if origin is None else origin.offset,
        _size_bytes(letter),
        _header_hashes(letter),
        earlier_digest(letter),
    )


def error_text(letter: Letter) -> str:
    """Returns type and message, which a search is made in."""
    parts = (letter.exception_type, letter.exception_message)
    text = ": ".join(part[: schema.ERROR_CHARACTERS] for part in parts if part)
    return cut(text.replace("\0", "\ufffd"))  # SQLite ends a text at a NUL


def resolution_row(record: Record) -> tuple[bytes, int, str | None, str, int, str] | None:
    """Returns digest, generation, state, by, at_ms and why; the state is None for a reopened one.

    None: it says nothing, as `Resolutions` has it.
    """
    name, _, generation = (record.key or b"").rpartition(b"#")
    number = whole_number(generation)
    if record.key is None or number is None:
        return None
    if record.value is None:
        return digest(name), number, None, "", 0, ""
    found = decoded(record.value)
    if found is None:  # a garbled record is not a tombstone
        return None
    # SQLite refuses lone surrogates and integers above 64 bits, which JSON may hold.
    by, why = cut(valid_unicode(found.by)), valid_unicode(found.why[:_WHY_CHARACTERS])
    at_ms = min(max(found.at_ms, 0), LAST_MS)
    return digest(name), number, found.state.value, by, at_ms, why


def earlier_digest(letter: Letter) -> bytes | None:
    """Returns what a resolution by the letter's place alone is found by; None: it has none."""
    key = letter.earlier_key
    return None if key is None else digest(key.rpartition("#")[0].encode())


def earlier_place(record: Record) -> tuple[int, int, str] | None:
    """Returns the place of a letter that was resolved by that alone, and how its id begins.

    None: the record names an id.
    """
    name, _, _ = (record.key or b"").rpartition(b"#")
    found = _BY_PLACE.fullmatch(name)
    return None if found is None else (int(found[1]), int(found[2]), f"{name.decode()}/")


def digest(name: bytes) -> bytes:
    """Returns what a letter is found by: ids may be long."""
    return blake2b(name, digest_size=16).digest()


def header_hash(name: str, value: bytes) -> int:
    """Returns what letters with this header are found by: an integer that SQLite can hold."""
    content = name.encode("utf-8", "replace") + b"\0" + value
    return int.from_bytes(blake2b(content, digest_size=8).digest(), signed=True)


def cut(text: str) -> str:
    """Returns the start of a text that a sender chose."""
    most = schema.NAME_CHARACTERS
    return text if len(text) <= most else f"{text[: most - 1]}\u2026"


def cut_key(key: bytes) -> bytes:
    """Returns the key; a long one's start and a digest of all, since many may start alike."""
    if len(key) <= schema.KEY_BYTES:
        return key
    end = digest(key)
    return key[: schema.KEY_BYTES - len(end)] + end


def _failed_ms(letter: Letter) -> int:
    content = dict(letter.headers).get(LAST_FAILURE_MS)
    return -1 if content is None else whole_number(content) or -1


def _header_hashes(letter: Letter) -> str | None:
    """Those of the first headers that are not ours, as a list in JSON; None without any."""
    theirs = (each for each in letter.headers if each[0] not in HEADER_NAMES)
    first = islice(theirs, schema.HEADERS)
    hashes = [header_hash(name, value) for name, value in first if value is not None]
    return json.dumps(hashes) if hashes else None


def _size_bytes(letter: Letter) -> int:
    headers = sum(len(name) + len(content or b"") for name, content in letter.headers)
    return len(letter.key or b"") + len(letter.value or b"") + headers
