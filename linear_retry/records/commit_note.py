"""The note beside a committed offset: which messages behind it are not done, and their failures."""

import binascii
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Literal, TypeAlias

from linear_retry.scope import UNKEYED, Partition

MOST_CHARACTERS = 4_095
"""Brokers refuse a longer note, and the offset with it (`offset.metadata.max.bytes`: 4,096)."""
_LEAST_CHARACTERS = 10
"""Of an entry: its kind, its digest and its distance are 8 bytes at least."""
_MARK, _VERSION = "lr", 1
_DIGEST_BYTES, _CHECKSUM_BYTES = 6, 4
_TICK_MS, _TICKS_A_SECOND = 100, 10

UndoneKind: TypeAlias = Literal["message", "key", "unkeyed"]
_KINDS: tuple[UndoneKind, ...] = ("message", "key", "unkeyed")
_IS_THERE, _IS_BLOCKED = 4, 8
_MANY_FAILURES = 15
"""A number of failures from here on follows the flags, which have four bits for it."""


class NewerNoteError(ValueError):
    """A note of a version that this release does not know."""


@dataclass(frozen=True, slots=True)
class NotedFailures:
    """How often a message has failed, and when. Times are UTC, in milliseconds.

    A note keeps tenths of a second, `retry_at_ms` rounded up, and `last_ms` as whole seconds after
    the first; and none before another in this order: a clock may have been put back. `is_blocked`:
    it waits for an operator.
    """

    count: int
    first_ms: int
    last_ms: int
    retry_at_ms: int
    is_blocked: bool = False


@dataclass(frozen=True, slots=True)
class Undone:
    """What is not done from `offset` on: one message, all of a key, or all without a key.

    `digest` is that of the message or of the key (`Digests`). `is_there`: the message at `offset`
    is the first of them, so another one there belongs to another log. `failures` are those of that
    message.
    """

    kind: UndoneKind
    offset: int
    digest: bytes
    failures: NotedFailures | None = None
    is_there: bool = True

    def covers(self, offset: int, lane: str) -> bool:
        """Whether the message there, of the lane with this key (`Scope.key`), is one of them."""
        if self.kind == "message":
            return offset == self.offset
        own = UNKEYED if self.kind == "unkeyed" else self.digest.hex()
        return self.offset <= offset and lane == own


@dataclass(frozen=True, slots=True)
class CommitNote:
    """What the next owner of a partition needs to know, beside the committed offset `base`.

    Below `frontier` everything is done but what is `undone`; from there on nothing is.
    `leader_epoch` is that of the last message read below it: where a later one begins, the log is
    another. `key_id` names the function that gives a message its key; empty: it is Kafka's key.
    """

    base: int
    frontier: int
    undone: tuple[Undone, ...] = ()
    leader_epoch: int | None = None
    key_id: str = ""

    def has_done(self, offset: int, lane: str) -> bool:
        """Whether the message there, of the lane with this key, is done."""
        return offset < self.frontier and not any(one.covers(offset, lane) for one in self.undone)


class Digests:
    """Digests of keys and messages. Keyed by the group: who reads a note learns no key of it."""

    def __init__(self, group_id: str) -> None:
        self._keyed = blake2b(
            digest_size=_DIGEST_BYTES, key=blake2b(group_id.encode("utf-8", "replace")).digest()
        )

    def of_key(self, key: bytes | None) -> bytes:
        """Returns the digest of a key; messages without one have a digest too."""
        return self._of(b"null" if key is None else b"=" + key)

    def of_message(self, key: bytes | None, timestamp_ms: int | None) -> bytes:
        """Tells a message from any other at its offset, of a log that was made again."""
        return self._of(f"{timestamp_ms} ".encode() + (b"null" if key is None else b"=" + key))

    def _of(self, content: bytes) -> bytes:
        keyed = self._keyed.copy()
        keyed.update(content)
        return keyed.digest()


def write_note(
    note: CommitNote, group_id: str, partition: Partition, most: int = MOST_CHARACTERS
) -> str:
    """Returns the note as the metadata of a commit: ASCII, of at most `most` characters.

    It always fits: the frontier is lowered to the first that does not. What is above it is handled
    again, and nothing is lost. Empty if there is nothing left to say.
    """
    undone = tuple(sorted(note.undone, key=lambda one: one.offset))
    count = min(len(undone), most // _LEAST_CHARACTERS)
    while True:
        left_out = undone[count:]
        frontier = min([note.frontier, *(one.offset for one in left_out)])
        if frontier <= note.base and not count:
            return ""
        fitting = replace(note, frontier=max(frontier, note.base), undone=undone[:count])
        text = _text(_body(fitting), group_id, partition)
        if len(text) <= most:
            return text
        if not count:
            return ""
        # Each takes some 20 characters: a few steps, whatever the number.
        count = max(count - max((len(text) - most) // 40, 1), 0)


def read_note(text: str | None, group_id: str, partition: Partition) -> CommitNote | None:
    """Returns the note of a commit's metadata; None if it is not ours, or damaged.

    A note that was copied to another group or partition is not ours. Raises `NewerNoteError`.
    """
    head, _, packed = (text or "").partition(".")
    version = head.removeprefix(_MARK)
    if head == version or not (version.isascii() and version.isdigit()):
        return None
    try:
        signed = b64decode(packed, validate=True)
    except (binascii.Error, ValueError):
        return None
    checksum, body = signed[:_CHECKSUM_BYTES], signed[_CHECKSUM_BYTES:]
    if b64encode(signed).decode() != packed or checksum != _checksum(
        body, int(version), group_id, partition
    ):
        return None
    if int(version) != _VERSION:
        raise NewerNoteError(version)
    return _read(body)


def note_beside(
    committed: tuple[int, str], group_id: str, partition: Partition
) -> CommitNote | None:
    """Returns the note of a commit, an offset and its metadata, for those who only look at it.

    None also where it says nothing about this offset, as a tool has moved that, and where a newer
    release has written it.
    """
    offset, text = committed
    try:
        note = read_note(text, group_id, partition)
    except NewerNoteError:
        return None
    return note if note is not None and note.base == offset else None


def _text(body: bytes, group_id: str, partition: Partition) -> str:
    signed = _checksum(body, _VERSION, group_id, partition) + body
    return f"{_MARK}{_VERSION}.{b64encode(signed).decode()}"


def _checksum(body: bytes, version: int, group_id: str, partition: Partition) -> bytes:
    identity = f"{version}\0{group_id}\0{partition[0]}\0{partition[1]}\0"
    found = zlib.crc32(identity.encode("utf-8", "replace") + body)
    return found.to_bytes(_CHECKSUM_BYTES, "big")


def _body(note: CommitNote) -> bytes:
    failures = [one.failures for one in note.undone if one.failures is not None]
    since = max(min((each.first_ms // _TICK_MS for each in failures), default=0), 0)
    key_id = note.key_id.encode()
    epochs = 0 if note.leader_epoch is None else note.leader_epoch + 1
    head = (note.base, note.frontier - note.base, epochs, since, len(key_id))
    body = bytearray(_packed(head) + key_id)
    last = note.base
    for one in note.undone:
        body += _entry(one, last, since)
        last = one.offset
    return bytes(body)


def _entry(one: Undone, last: int, since: int) -> bytes:
    failures = one.failures
    flags = _KINDS.index(one.kind) | _IS_THERE * one.is_there
    numbers = [one.offset - last]
    if failures is not None:
        count = min(failures.count, _MANY_FAILURES)
        flags |= _IS_BLOCKED * failures.is_blocked | count << 4
        first = max(failures.first_ms // _TICK_MS, since)
        lasted_s = max(failures.last_ms // _TICK_MS - first, 0) // _TICKS_A_SECOND
        failed = first + lasted_s * _TICKS_A_SECOND
        due = max(-(-failures.retry_at_ms // _TICK_MS), failed)  # never early
        numbers += [failures.count - count] if count == _MANY_FAILURES else []
        numbers += [first - since, lasted_s, due - failed]
    return bytes([flags]) + one.digest + _packed(numbers)


def _read(body: bytes) -> CommitNote:
    reader = _Reader(body)
    base, above, epochs, since, length = (reader.number() for _ in range(5))
    key_id = reader.take(length).decode()
    undone, last = list[Undone](), base
    while not reader.is_over:
        undone.append(reader.entry(last, since))
        last = undone[-1].offset
    return CommitNote(base, base + above, tuple(undone), epochs - 1 if epochs else None, key_id)


class _Reader:
    """Reads a body from its beginning; its checksum was right."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    @property
    def is_over(self) -> bool:
        return self._at == len(self._body)

    def take(self, count: int) -> bytes:
        self._at += count
        return self._body[self._at - count : self._at]

    def number(self) -> int:
        value, shift = 0, 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def entry(self, last: int, since: int) -> Undone:
        (flags,) = self.take(1)
        digest, offset, failures = self.take(_DIGEST_BYTES), last + self.number(), None
        if count := flags >> 4:
            count += self.number() if count == _MANY_FAILURES else 0
            first = since + self.number()
            failed = first + self.number() * _TICKS_A_SECOND
            first_ms, last_ms, due_ms = (
                tick * _TICK_MS for tick in (first, failed, failed + self.number())
            )
            is_blocked = bool(flags & _IS_BLOCKED)
            failures = NotedFailures(count, first_ms, last_ms, due_ms, is_blocked)
        is_there = bool(flags & _IS_THERE)
        return Undone(_KINDS[flags & 3], offset, digest, failures, is_there=is_there)


def _packed(numbers: Iterable[int]) -> bytes:
    """Packs numbers from 0 on, seven bits a byte, the lowest first."""
    packed = bytearray()
    for number in numbers:
        rest = number
        while rest > 0x7F:
            packed.append(rest & 0x7F | 0x80)
            rest >>= 7
        packed.append(rest)
    return bytes(packed)
