"""What has happened? One frozen value for each thing, given to the listeners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from linear_retry.scope import Partition, Scope

CloseOutcome: TypeAlias = Literal["recovered", "dead-lettered", "skipped", "dropped"]

WaitReason: TypeAlias = Literal["failed", "letter", "limit"]
"""What an open circuit waits for: another attempt of the message, the sending of its letter, or
either, because there were as many letters in a row as the limit allows."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """The group gave these partitions to this member, or what it gave up (`Lost`) is its still."""

    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class Revoked:
    """The group took these partitions back; what was done in them is committed."""

    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class Lost:
    """These partitions may belong to another member already; nothing was committed."""

    partitions: tuple[Partition, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class CircuitOpened:
    """A message failed: everything in `scope` stands still until `retry_at` (aware, UTC)."""

    scope: Scope
    topic: str
    partition: int
    offset: int
    error: str
    failures: int
    delay_s: float
    retry_at: datetime


@dataclass(frozen=True, slots=True)
class ProbeFailed:
    """The held message failed again: still open, until the new `retry_at`."""

    scope: Scope
    topic: str
    partition: int
    offset: int
    error: str
    failures: int
    delay_s: float
    retry_at: datetime


@dataclass(frozen=True, slots=True)
class RetriedNow:
    """An operator's `retry_now`: the held message is attempted, or its letter sent, at once.

    `early_s` is how long before `retry_at`; 0 where it was due.
    """

    scope: Scope
    topic: str
    partition: int
    offset: int
    failures: int
    early_s: float


@dataclass(frozen=True, slots=True)
class WaitEnded:
    """An operator ended the wait of a circuit that holds no message: the next one probes it.

    `early_s` is how long before `retry_at`.
    """

    scope: Scope
    early_s: float


@dataclass(frozen=True, slots=True)
class LimitLifted:
    """An operator lifted `DeadLetters(limit=...)`, until a success, or for so many letters."""

    for_letters: int | None
    why: str


@dataclass(frozen=True, slots=True)
class Commanded:
    """What became of a command from the control topic: `retry`, `give-up` or `lift-limit`.

    `answer` is what was told to whoever sent it, as docs/operating.md says; for one command several
    may follow one another. `by` is who they say they are. Without a place it is about no message.
    """

    topic: str | None
    partition: int | None
    offset: int | None
    command: str
    by: str
    answer: str
    command_id: str


@dataclass(frozen=True, slots=True)
class CircuitClosed:
    """The scope reads on. `dropped`: it was revoked or lost, and `retry_at` has passed."""

    scope: Scope
    outcome: CloseOutcome
    open_s: float


@dataclass(frozen=True, slots=True)
class DeadLettered:
    """The dead-letter topic has acknowledged this message."""

    topic: str
    partition: int
    offset: int
    dead_letter_topic: str
    retry_id: str
    generation: int
    reason: str
    error: str
    failures: int
    escaped_headers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeadLetterFailed:
    """The dead letter could not be sent: the circuit is open, the sending is tried again."""

    scope: Scope
    topic: str
    partition: int
    offset: int
    dead_letter_topic: str
    error: str
    sends: int
    delay_s: float
    retry_at: datetime


@dataclass(frozen=True, slots=True)
class LimitReached:
    """It would be one dead letter more than `limit` in a row: held instead, the circuit is open."""

    scope: Scope
    topic: str
    partition: int
    offset: int
    error: str
    failures: int
    limit: int
    delay_s: float
    retry_at: datetime


@dataclass(frozen=True, slots=True)
class Skipped:
    """`on_permanent="skip"`: this message is given up for good, by choice."""

    topic: str
    partition: int
    offset: int
    retry_id: str
    error: str


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A replayed message meant for another consumer group, `retry_group_id`."""

    topic: str
    partition: int
    offset: int
    retry_group_id: str


@dataclass(frozen=True, slots=True)
class LeakDropped:
    """A paused partition delivered a message all the same; it will be read again."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class PartitionRevived:
    """A partition with messages to read stood still, and was assigned anew.

    `offset` is where it goes on; None: where the group's committed offset says.
    """

    topic: str
    partition: int
    offset: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class PartitionUnreadable:
    """The broker has what comes next in this partition, and it cannot be read: it stands still.

    Such as a batch whose checksum is wrong (`check.crcs`). Nothing is passed over: from `offset`
    on it is read again at `retry_at` (aware, UTC), until that succeeds (`PartitionReadable`) or an
    operator steps over the batch (`skip_unreadable`). `tries` is how often it has failed.
    """

    topic: str
    partition: int
    offset: int
    error: str
    tries: int
    delay_s: float
    retry_at: datetime


@dataclass(frozen=True, slots=True)
class PartitionReadable:
    """The partition goes on at `offset`, after it stood still for `stopped_s` seconds."""

    topic: str
    partition: int
    offset: int
    stopped_s: float


@dataclass(frozen=True, slots=True)
class DataLost:
    """Messages from `offset` to `next_offset - 1` are lost: we have not read them.

    The broker has removed them, and `next_offset` is where `auto.offset.reset` says; or they could
    not be read (`PartitionUnreadable`), and an operator has stepped over them.
    """

    topic: str
    partition: int
    offset: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class HandlerTooSlow:
    """No poll for longer than `max.poll.interval.ms`: the partitions count as lost.

    `took_s` is the time since the last poll, `overruns` how often in a row it was this offset.
    """

    topic: str
    partition: int
    offset: int
    took_s: float
    limit_s: float
    overruns: int


@dataclass(frozen=True, slots=True)
class CommitFailed:
    """A commit was refused; what it said is committed with the next one where still owned."""

    error: str
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class ClientError:
    """librdkafka reports a problem that it deals with itself, such as a broker that is down.

    The first of a kind in a row, and then once for every tenfold (`count`).
    """

    code: str
    text: str
    count: int


@dataclass(frozen=True, slots=True)
class ClientRenewed:
    """librdkafka's client cannot go on, for this reason: a new one joins the group in its place.

    Its partitions are `Lost` before this.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class InstanceIdTaken:
    """Another member of the group has this `group.instance.id`, or had when it was killed.

    Its session has to end first; that is waited for, `left_s` seconds more at most.
    """

    instance_id: str
    left_s: float


@dataclass(frozen=True, slots=True)
class RetentionTooShort:
    """The strategy waits longer in total than a source topic keeps its messages."""

    topic: str
    retention_ms: int
    strategy_total_s: float


@dataclass(frozen=True, slots=True)
class Stopped:
    """The consumer has ended. A static member leaves its partitions standing (`left_group`)."""

    left_group: bool


Event: TypeAlias = (
    Assigned
    | Revoked
    | Lost
    | CircuitOpened
    | ProbeFailed
    | RetriedNow
    | WaitEnded
    | LimitLifted
    | Commanded
    | CircuitClosed
    | DeadLettered
    | DeadLetterFailed
    | LimitReached
    | Skipped
    | PassedOver
    | LeakDropped
    | PartitionRevived
    | PartitionUnreadable
    | PartitionReadable
    | DataLost
    | HandlerTooSlow
    | CommitFailed
    | ClientError
    | ClientRenewed
    | InstanceIdTaken
    | RetentionTooShort
    | Stopped
)

Listener: TypeAlias = Callable[[Event], object]
