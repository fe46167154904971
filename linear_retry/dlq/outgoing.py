"""What is sent for a letter?"""

from __future__ import annotations

import hashlib
import json
import marshal
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from linear_retry.dead_letter import HEADER_NAMES, REPLAY_ID, Record
from linear_retry.dlq.foreign import FOREIGN
from linear_retry.dlq.letter import NONE, OURS, Letter
from linear_retry.header_text import Header, whole_number
from linear_retry.oversized import REFERENCE

_OVERSIZED = "retry-oversized"
_ESCAPED = "retry-escaped-headers"
_REPLAY_COUNT = "retry-replay-count"

_OWN_PREFIXES = {each.name: each.prefix for each in FOREIGN}

_PLACE = struct.Struct(">iq")

Fetch: TypeAlias = Callable[[str, int, int], Record | None]
"""The record at this topic, partition and offset; None where it is gone."""


class LeftError(Exception):
    """This letter cannot be sent as it is: the text says why. It stays open."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Key, value and headers of a replayed message, and the time of the message's own."""

    key: bytes | None
    value: bytes | None
    headers: list[Header]
    timestamp_ms: int

    def packed(self, partition: int, offset: int) -> bytes:
        """As bytes, behind the place of the letter: `place_of` and `unpacked` read them."""
        parts = (self.key, self.value, self.headers, self.timestamp_ms)
        return _PLACE.pack(partition, offset) + marshal.dumps(parts)

    def size_bytes(self) -> int:
        """As the only record of a batch (KIP-98), without compression: what a topic's limit is for.

        Told before anything is sent, so it is the bound above, by some bytes.
        """
        headers = sum(len(name.encode()) + len(value or b"") + 10 for name, value in self.headers)
        return 61 + 30 + len(self.key or b"") + len(self.value or b"") + headers


def place_of(content: bytes) -> tuple[int, int]:
    """The letter's partition and offset."""
    partition, offset = _PLACE.unpack_from(content)
    return partition, offset


def unpacked(content: bytes) -> Outgoing:
    """The outgoing message that was `packed`."""
    return Outgoing(*marshal.loads(memoryview(content)[_PLACE.size :]))


def outgoing(letter: Letter, replay_id: str, fetch: Fetch) -> Outgoing:
    """The message as it was, with the headers that say that it was replayed.

    The headers that the writer of the letter added are gone; ours are those that the consumer needs
    to know its earlier life (docs/dead-letters.md). Where the letter is but a reference, the
    message is fetched from where it was read. Raises `LeftError` where that is no longer possible.
    """
    record = _original(letter, fetch) if _is_reference(letter) else None
    source = letter if record is None else record
    prefix = _OWN_PREFIXES.get(letter.format)
    own = [
        header
        for header in source.headers
        if header[0] not in HEADER_NAMES and not (prefix and header[0].startswith(prefix))
    ]
    escaped = letter.escaped_headers if record is None else record.escaped_headers
    timestamp_ms = -1 if letter.origin is None else letter.origin.timestamp_ms
    return Outgoing(source.key, source.value, own + _ours(letter, replay_id, escaped), timestamp_ms)


def _ours(letter: Letter, replay_id: str, escaped: tuple[str, ...]) -> list[Header]:
    said = dict(letter.headers)
    # A letter forgets how often its message was sent before: its generation knows.
    before = max(whole_number(said.get(_REPLAY_COUNT) or b"") or 0, letter.generation - 1)
    last: list[tuple[str, str | int | None]] = [(REPLAY_ID, replay_id), (_REPLAY_COUNT, before + 1)]
    if letter.format == NONE or letter.origin is None:
        return _encoded(last)
    kept = (said.get(_ESCAPED) or b"").decode("utf-8", "replace").split(",")
    names = {name for name, _ in letter.headers}
    escaped = tuple(dict.fromkeys((*(n for n in kept if n in names), *escaped)))
    origin = letter.origin
    return _encoded(
        [
            ("retry-id", letter.id),
            ("retry-generation", letter.generation),
            ("retry-destination", origin.topic),
            ("retry-original-partition", origin.partition),
            ("retry-original-offset", origin.offset),
            ("retry-original-timestamp-ms", origin.timestamp_ms),
            ("retry-group-id", letter.group_id),
            (_ESCAPED, ",".join(escaped) if escaped else None),
            *last,
        ]
    )


def _encoded(contents: list[tuple[str, str | int | None]]) -> list[Header]:
    return [
        (name, str(content).encode("utf-8", "replace"))
        for name, content in contents
        if content is not None
    ]


def _is_reference(letter: Letter) -> bool:
    if letter.format != OURS:
        return False
    content = dict(letter.headers).get(_OVERSIZED)
    if content is None:
        return False
    if content != REFERENCE.encode():
        raise LeftError(f"{_OVERSIZED} is {content[:40]!r}, which this version does not know")
    return True


def _original(letter: Letter, fetch: Fetch) -> Record:
    """The message that a reference stands for. It is whole, or not sent: the envelope has sums."""
    try:
        envelope = json.loads(letter.value or b"")
        topic, partition, offset = (envelope[k] for k in ("topic", "partition", "offset"))
        sums = {part: envelope[part] for part in ("key", "value")}
    except (ValueError, KeyError, TypeError, RecursionError):
        raise LeftError("a reference whose envelope is garbled") from None
    if not (isinstance(topic, str) and isinstance(partition, int) and isinstance(offset, int)):
        raise LeftError("a reference whose envelope is garbled")
    record = fetch(topic, partition, offset)
    if record is None:
        raise LeftError("a reference to a message that is no longer there")
    if not (_is(record.key, sums["key"]) and _is(record.value, sums["value"])):
        raise LeftError("a reference to a message that is another one now")
    return record


def _is(content: bytes | None, described: Any) -> bool:
    if content is None or described is None:
        return content is described
    match described:
        case {"bytes": int(size), "sha256": str(digest)}:
            return len(content) == size and hashlib.sha256(content).hexdigest() == digest
    return False
