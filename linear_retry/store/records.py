"""The values of the store: messages that wait, and dead letters."""

from dataclasses import dataclass, replace
from typing import Literal, Self, TypeAlias
from uuid import uuid4
from zlib import crc32

from linear_retry.records.record import OutgoingRecord
from linear_retry.records.retry_headers import EDITED_FROM, ID, MESSAGE_ID
from linear_retry.records.text import Header

Service: TypeAlias = Literal["scheduler", "outbox"]
"""The entrance by which a message came; each has lanes and leases of its own."""

OnRefused: TypeAlias = Literal["hold", "dead-letter"]
"""What is done with a message that its topic does not take as it is, such as one that is too large.

`hold`: it is tried again, and its lane waits behind it; `dead-letter`: it is a dead letter, and the
next one is sent. One that has neither key nor partition has no order to keep, and is a dead letter
in both cases.
"""

_KEY_SLOTS = 64
_NO_ORDER = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    """What comes out of the store as it went in, byte for byte."""

    service: Service
    destination: str
    """The topic to send to; `""` for a dead letter whose record named none."""
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None
    """The record's own timestamp; None: the time of sending."""
    retry_id: str
    group_id: str | None = None
    origin: str | None = None
    """`topic[partition]@offset` in the intake topic; None in an outbox."""

    def with_new_id(self) -> Self:
        """Returns it as another message, as it was edited.

        Its new id is in `retry-message-id` and, if it is a scheduler's, in `retry-id`; the header
        `retry-edited-from` names the old one.
        """
        new_id = str(uuid4())
        named = (MESSAGE_ID,) if self.service == "outbox" else (ID, MESSAGE_ID)
        kept = [each for each in self.headers if each[0] not in (ID, MESSAGE_ID, EDITED_FROM)]
        ids = ((name, new_id.encode()) for name in named)
        headers = (*kept, *ids, (EDITED_FROM, self.retry_id.encode()))
        return replace(self, headers=headers, retry_id=new_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage(_Content):
    """A message to be stored and sent at `due_ms`, in the order of its slot."""

    slot: str
    """As `slot_of` gives it."""
    due_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage(NewMessage):
    """A message that waits."""

    id: int
    lane_id: int
    stored_ms: int

    @property
    def partition(self) -> int | None:
        """The partition to send to; None: by key."""
        return partition_of(self.slot)

    @property
    def has_order(self) -> bool:
        """Whether none may overtake it: it has a key, or a partition."""
        return self.slot != _NO_ORDER

    def outgoing(self) -> OutgoingRecord:
        """Returns the record to send."""
        return OutgoingRecord(
            self.destination, self.key, self.value, self.headers, self.partition, self.timestamp_ms
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDeadLetter(_Content):
    """A message that no retry can save, with the reason."""

    partition: int | None = None
    """The destination's partition; None: by key."""
    reason: str
    """One word for the kind, as `too-large`, `unreadable` or `exhausted`."""
    error: str
    """One sentence for people; searched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDeadLetter(NewDeadLetter):
    """A dead letter of the store."""

    id: int
    died_ms: int


def slot_of(key: bytes | None, partition: int | None) -> str:
    """Returns the slot of a record within its destination: what is sent in order.

    The partition in decimal digits; without one `key-N` by the key's hash; without a key `any`.
    """
    if partition is not None:
        return str(partition)
    return _NO_ORDER if key is None else f"key-{crc32(key) % _KEY_SLOTS}"


def partition_of(slot: str) -> int | None:
    """Returns the partition that a lane's slot stands for; None for a slot of keys."""
    return int(slot) if slot.isdecimal() else None
