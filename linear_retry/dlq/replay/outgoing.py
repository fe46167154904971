"""Builds the message that is sent for a letter."""

import hashlib
import json
import marshal
import struct
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from linear_retry.dlq.letters.foreign import FOREIGN, SPRING_RETRIES
from linear_retry.dlq.letters.letter import NONE, OURS, Letter
from linear_retry.records.dead_letter import REFERENCE
from linear_retry.records.record import Record
from linear_retry.records.retry_headers import (
    AT_MS,
    DESTINATION,
    ESCAPED_HEADERS,
    FORMAT_VERSION,
    GENERATION,
    GROUP_ID,
    HEADER_NAMES,
    ID,
    ORIGINAL_OFFSET,
    ORIGINAL_PARTITION,
    ORIGINAL_TIMESTAMP_MS,
    OVERSIZED,
    REASON,
    REPLAY_COUNT,
    REPLAY_ID,
    RETRY,
    SEND_TO,
    VERSION,
)
from linear_retry.records.text import Header, whole_number

REPLAYED = "replayed"
"""The `retry-reason` of a letter that was replayed to a retry topic."""

# The headers that identify a message, and what `parse` takes if the letter has none.
_IDENTITY: tuple[tuple[str, bytes | None], ...] = (
    (ID, None),
    (GENERATION, b"1"),
    (DESTINATION, None),
    (ORIGINAL_PARTITION, None),
    (ORIGINAL_OFFSET, None),
    (ORIGINAL_TIMESTAMP_MS, b"-1"),
    (GROUP_ID, None),
)
_OWN_PREFIXES = {each.name: each.prefixes for each in FOREIGN} | {NONE: (SPRING_RETRIES,)}
_MAY_BE_EMPTY = frozenset(each.name for each in FOREIGN if not each.has_message)
_PLACE = struct.Struct(">iq")
_NO_REFERENCES = 2  # a version of marshal in which nothing is shorter than in Kafka

Fetch: TypeAlias = Callable[[str, int, int], Record | None]
"""Returns the record at this topic, partition and offset; None if it is gone."""


NO_IDENTITY = "without a group or a place, so that no retry line can know it: send it with --to"

NO_MESSAGE = "of a share group, without the message's key and value: they are where it came from"


class NotReplayableError(Exception):
    """Raised if this letter cannot be sent, with the reason. It stays open."""


class Outgoing(NamedTuple):
    """Key, value, headers and original timestamp of a message to be replayed."""

    key: bytes | None
    value: bytes | None
    headers: list[Header]
    timestamp_ms: int

    def packed(self, partition: int, offset: int) -> bytes:
        """Packs it as bytes, after the letter's place; `place_of` and `unpacked` read them."""
        return _PLACE.pack(partition, offset) + marshal.dumps(tuple(self), _NO_REFERENCES)

    def group_in(self, topic: str) -> str:
        """Returns the only group that handles it in `topic`; "": every group does."""
        values = dict(self.headers)
        is_retry = values.get(SEND_TO) == RETRY.encode()
        if not is_retry and values.get(DESTINATION) != topic.encode():
            return ""
        return (values.get(GROUP_ID) or b"").decode("utf-8", "replace")

    def to_retry(self, delay_ms: int | None, now_ms: int) -> "Outgoing":
        """The message as one that waits in a retry topic: with the headers that say so.

        None: the topic's delay is unknown. Without a step and without failures: those that it had
        are over. Raises `NotReplayableError` if the letter does not say who the message is.
        """
        found = dict(self.headers)
        if not all(found.get(name) for name, _ in _IDENTITY):
            raise NotReplayableError(NO_IDENTITY)
        waits = {
            VERSION: FORMAT_VERSION,
            SEND_TO: RETRY,
            REASON: REPLAYED,
            **({} if delay_ms is None else {AT_MS: now_ms + delay_ms}),
        }
        kept = [header for header in self.headers if header[0] not in waits]
        added: list[Header] = [(name, str(value).encode()) for name, value in waits.items()]
        return self._replace(headers=kept + added)

    def size_bytes(self) -> int:
        """Its size as the only record of an uncompressed batch (KIP-98), as topics limit it."""
        headers = sum(_sized(name.encode()) + _sized(value) for name, value in self.headers)
        body = 3 + _sized(self.key) + _sized(self.value) + _varint(len(self.headers)) + headers
        return _BATCH_OVERHEAD_BYTES + _varint(body) + body


_BATCH_OVERHEAD_BYTES = 61


def largest_packed(size_bytes: int) -> int:
    """Returns the packed length up to which a message is surely no larger than `size_bytes`."""
    return size_bytes - _BATCH_OVERHEAD_BYTES


def _sized(content: bytes | None) -> int:
    return 1 if content is None else _varint(len(content)) + len(content)


def _varint(number: int) -> int:
    """Returns its length in bytes, in zigzag encoding."""
    return (max(number.bit_length(), 0) + 7) // 7


def place_of(content: bytes) -> tuple[int, int]:
    """Returns the letter's partition and offset."""
    partition, offset = _PLACE.unpack_from(content)
    return partition, offset


def unpacked(content: bytes) -> Outgoing:
    """Returns the outgoing message that was `packed`."""
    return Outgoing(*marshal.loads(memoryview(content)[_PLACE.size :]))


def outgoing(
    letter: Letter, replay_id: str, fetch: Fetch, for_group: str | None = None
) -> Outgoing:
    """Builds the original message, with the headers that mark it as replayed.

    Drops the headers that the letter's writer added; keeps of ours those that the consumer needs to
    identify it (docs/dead-letters/replay.md). If the letter is only a reference, the message is
    fetched from where it was read; raises `NotReplayableError` if that is impossible. `for_group`
    addresses it to another group than the letter's; "": to every group.
    """
    if letter.format in _MAY_BE_EMPTY and letter.key is letter.value is None:
        raise NotReplayableError(NO_MESSAGE)
    contents = dict(letter.headers)
    record = _original(letter, fetch) if _is_reference(letter, contents) else None
    source = letter if record is None else record
    headers = [header for header in source.headers if header[0] not in HEADER_NAMES]
    prefixes = _OWN_PREFIXES.get(letter.format, ())
    headers = [header for header in headers if not header[0].startswith(prefixes)]
    headers += _addressed(_identity(letter, contents), for_group)
    if ESCAPED_HEADERS in contents or source.escaped_headers:
        headers += _escaped(letter, contents, source.escaped_headers)
    # A letter does not record how often its message was replayed, but its generation does.
    before = max(whole_number(contents.get(REPLAY_COUNT) or b"0") or 0, letter.generation - 1)
    headers += [(REPLAY_ID, replay_id.encode()), (REPLAY_COUNT, b"%d" % (before + 1))]
    timestamp_ms = -1 if letter.origin is None else letter.origin.timestamp_ms
    return Outgoing(source.key, source.value, headers, timestamp_ms)


def _identity(letter: Letter, contents: dict[str, bytes | None]) -> list[Header]:
    if letter.format == OURS:
        if letter.origin is not None and letter.origin.offset is None:
            # With a place that was never its own, a handler would take it for another message.
            return [(ID, contents.get(ID))]
        return [(name, contents.get(name) or default) for name, default in _IDENTITY]
    origin = letter.origin
    if origin is None or letter.format == NONE:
        return []
    values = (
        *(letter.id, letter.generation, origin.topic, origin.partition, origin.offset),
        *(origin.timestamp_ms, letter.group_id),
    )
    return [
        (name, str(content).encode("utf-8", "replace"))
        for (name, _), content in zip(_IDENTITY, values, strict=True)
        if content is not None
    ]


def _addressed(identity: list[Header], for_group: str | None) -> list[Header]:
    if for_group is None or not identity:
        return identity
    if for_group:
        others = [header for header in identity if header[0] != GROUP_ID]
        return [*others, (GROUP_ID, for_group.encode("utf-8", "replace"))]
    # Without an id, as that contains the group: each group that fails assigns its own.
    return [header for header in identity if header[0] not in (GROUP_ID, ID)]


def _escaped(
    letter: Letter, contents: dict[str, bytes | None], now: tuple[str, ...]
) -> list[Header]:
    """Returns the header with the changed names: old ones still present, and new ones."""
    earlier = (contents.get(ESCAPED_HEADERS) or b"").decode("utf-8", "replace").split(",")
    present = {name for name, _ in letter.headers}
    names = dict.fromkeys((*(name for name in earlier if name in present), *now))
    return [(ESCAPED_HEADERS, ",".join(names).encode("utf-8", "replace"))] if names else []


def _is_reference(letter: Letter, contents: dict[str, bytes | None]) -> bool:
    content = contents.get(OVERSIZED)
    if letter.format != OURS or content is None:
        return False
    if content != REFERENCE.encode():
        raise NotReplayableError(
            f"{OVERSIZED} is {content[:40]!r}, which this version does not know"
        )
    return True


def _original(letter: Letter, fetch: Fetch) -> Record:
    """Fetches the message of a reference; it must match the envelope's checksums."""
    try:
        envelope = json.loads(letter.value or b"")
    except (ValueError, RecursionError):
        envelope = None
    match envelope:
        case {
            "topic": str(topic),
            "partition": int(partition),
            "offset": int(offset),
            "key": key,
            "value": value,
        }:
            record = fetch(topic, partition, offset)
        case _:
            raise NotReplayableError("a reference whose envelope is unreadable")
    if record is None:
        raise NotReplayableError("a reference to a message that is gone")
    if not (_matches(record.key, key) and _matches(record.value, value)):
        raise NotReplayableError("a reference to a message that another one has replaced")
    return record


def _matches(content: bytes | None, described: Any) -> bool:
    if content is None or described is None:
        return content is described
    match described:
        case {"bytes": int(size), "sha256": str(digest)}:
            return len(content) == size and hashlib.sha256(content).hexdigest() == digest
    return False
