"""The events: one frozen value for each thing that happened, passed to the listeners."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from linear_retry.scope import Partition, Place, Scope

CloseOutcome: TypeAlias = Literal[
    "recovered", "dead-lettered", "sent-to-retry", "returned", "handed-over", "skipped", "dropped"
]

WaitReason: TypeAlias = Literal["failed", "letter", "limit", "operator", "pause", "group"]


@dataclass(frozen=True, slots=True)
class _OfMessage:
    topic: str
    partition: int
    offset: int

    @property
    def place(self) -> Place:
        """The message's coordinates."""
        return Place(self.topic, self.partition, self.offset)


@dataclass(frozen=True, slots=True)
class _OfHeldMessage:
    scope: Scope
    topic: str
    partition: int
    offset: int

    @property
    def place(self) -> Place:
        """The held message's coordinates."""
        return Place(self.topic, self.partition, self.offset)


@dataclass(frozen=True, slots=True)
class _OfWait(_OfHeldMessage):
    error: str
    failures: int
    delay_s: float
    retry_at: datetime


@dataclass(frozen=True, slots=True)
class Assigned:
    """The group assigned these partitions to this member, or it still has them after `Lost`."""

    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class Revoked:
    """The group revoked these partitions; the handled messages in them are committed."""

    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class Lost:
    """These partitions may belong to another member already; nothing was committed."""

    partitions: tuple[Partition, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class CircuitOpened(_OfWait):
    """A message failed: everything in `scope` is paused until `retry_at` (aware, UTC)."""


@dataclass(frozen=True, slots=True)
class ProbeFailed(_OfWait):
    """The held message failed again: the circuit stays open until the new `retry_at`."""


@dataclass(frozen=True, slots=True)
class LimitReached(_OfWait):
    """A dead letter would exceed `limit` in a row: its message is held, and the circuit is open."""

    limit: int


@dataclass(frozen=True, slots=True)
class KeyBlocked(_OfHeldMessage):
    """`"block"`: the message failed for good, and its key waits until an operator retries it.

    Or gives it up. Its circuit is open from here on, without a `retry_at`. All other keys go on.
    """

    error: str
    failures: int


@dataclass(frozen=True, slots=True)
class BatchTakenApart(_OfMessage):
    """A batch of so many `messages` failed for good; each is now attempted alone.

    Of `run_batches`, or of `foreach_batch` with `"bisect"`, which attempts halves of it.
    """

    messages: int
    error: str
    failures: int


@dataclass(frozen=True, slots=True)
class DeadLetterFailed(_OfHeldMessage):
    """A dead letter could not be sent: the circuit is open, and it is sent again at `retry_at`.

    Or a message for a retry topic, or for the callback of `Recovery`, which raised: it is
    `dead_letter_topic` then that names the retry topic, or says `recovery callback`.
    """

    dead_letter_topic: str
    error: str
    attempts: int
    delay_s: float
    retry_at: datetime


@dataclass(frozen=True, slots=True)
class RetriedNow(_OfHeldMessage):
    """An operator retried a held message, or the sending of its letter, `remaining_s` early.

    0 if it was blocked: then no time was set.
    """

    failures: int
    remaining_s: float


@dataclass(frozen=True, slots=True)
class WaitEnded:
    """An operator ended the wait of a circuit without a held message, `remaining_s` early."""

    scope: Scope
    remaining_s: float


@dataclass(frozen=True, slots=True)
class LimitLifted:
    """An operator lifted `DeadLetters(limit=...)` until a success, or for so many `letters`."""

    letters: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class PausedByHand:
    """An operator, `by`, has paused what is in `scope`: nothing of it is attempted until `until`.

    It is after the message in hand. What is held keeps its failures and its `max_elapsed`.
    """

    scope: Scope
    by: str
    reason: str
    until: datetime


@dataclass(frozen=True, slots=True)
class PauseEnded:
    """The pause of `scope` is over, by its time or, if it was `closed`, by an operator."""

    scope: Scope
    closed: bool
    paused_s: float


@dataclass(frozen=True, slots=True)
class HeldByGroup:
    """`group_breaker=True`: nothing is attempted here while another member, `by`, probes for all.

    It is after the message in hand. `error` is what failed there, and `until` when it ends at the
    latest. What is held here keeps its failures and its `max_elapsed`.
    """

    by: str
    error: str
    until: datetime


@dataclass(frozen=True, slots=True)
class GroupHoldEnded:
    """Messages are attempted here again: another member's has `recovered`, or it is our turn."""

    recovered: bool
    held_s: float


@dataclass(frozen=True, slots=True)
class StrategyReloaded:
    """The file at `path` has changed: `strategy` is in force, and `before` was until now.

    Both are labels, `name@fingerprint`, of rules in their order.
    """

    path: str
    before: str
    strategy: str


@dataclass(frozen=True, slots=True)
class StrategyRefused:
    """The file at `path` has changed and cannot be in force: `strategy` still is."""

    path: str
    strategy: str
    error: str


@dataclass(frozen=True, slots=True)
class CommandAnswered:
    """A command from the control topic was answered; without coordinates it is about no message."""

    topic: str | None
    partition: int | None
    offset: int | None
    command: str
    by: str
    answer: str
    command_id: str


@dataclass(frozen=True, slots=True)
class CircuitClosed:
    """A circuit closed. `dropped`: its scope was revoked or lost, and `retry_at` has passed."""

    scope: Scope
    outcome: CloseOutcome
    open_s: float


@dataclass(frozen=True, slots=True)
class DeadLettered(_OfMessage):
    """The dead-letter topic acknowledged the dead letter of this message."""

    dead_letter_topic: str
    retry_id: str
    generation: int
    reason: str
    error: str
    failures: int
    escaped_headers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SentToRetry(_OfMessage):
    """The retry topic acknowledged this message: it is attempted again about `retry_at`.

    `step` is that of the retry topics' strategy, 1-based. The order ends here: what follows the
    message continues without it. `short_s`: `RetryAfter` asked for that much more than the longest
    retry topic waits.
    """

    retry_topic: str
    retry_id: str
    generation: int
    step: int
    retry_at: datetime
    error: str
    failures: int
    short_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ReturnedToSource(_OfMessage):
    """`back_to_source=True`: its delay is over, and the message is in its `source` topic again.

    There it is attempted once; if that fails, it goes to the next step.
    """

    source: str
    retry_id: str
    generation: int
    step: int


@dataclass(frozen=True, slots=True)
class HandedOver(_OfMessage):
    """`on_exhausted=Recovery(callback)`: the callback has taken this message, and returned."""

    retry_id: str
    error: str
    failures: int


@dataclass(frozen=True, slots=True)
class Skipped(_OfMessage):
    """`on_permanent="skip"`: this message failed permanently, and is skipped for good.

    Or its retries are over, and `on_expired="discard"`.
    """

    retry_id: str
    error: str


@dataclass(frozen=True, slots=True)
class PassedOver(_OfMessage):
    """A replayed message was not handled: it is for another consumer group, `retry_group_id`."""

    retry_group_id: str


@dataclass(frozen=True, slots=True)
class LeakDropped(_OfMessage):
    """A paused partition delivered a message; it is dropped, and will be fetched again."""


@dataclass(frozen=True, slots=True)
class PartitionRevived:
    """A stalled partition was assigned again at `offset` (None: the group's committed offset)."""

    topic: str
    partition: int
    offset: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class PartitionUnreadable(_OfMessage):
    """A partition cannot be read (a wrong checksum, say); it is tried again at `retry_at`."""

    error: str
    attempts: int
    delay_s: float
    retry_at: datetime


@dataclass(frozen=True, slots=True)
class PartitionReadable(_OfMessage):
    """A partition can be read again from `offset`, after being stalled for `stalled_s` seconds."""

    stalled_s: float


@dataclass(frozen=True, slots=True)
class DataLost(_OfMessage):
    """The messages from `offset` to `next_offset - 1` were removed by the broker, or skipped.

    If `next_offset` is not above `offset`, the partition's log is another than was read: it was
    cut, or the topic was deleted and created again. What was lost is not known then.
    """

    next_offset: int


@dataclass(frozen=True, slots=True)
class HandlerTooSlow(_OfMessage):
    """No poll for `elapsed_s`, `attempts` times in a row here: the partitions count as lost.

    `what` was too slow: the handler, or the recovery callback. A "worker's handler" keeps nobody
    from polling: its partition stays, and its event comes once, while it runs.
    """

    elapsed_s: float
    max_poll_interval_s: float
    attempts: int
    what: str = "handler"


@dataclass(frozen=True, slots=True)
class CommitFailed:
    """A commit was refused; the next one includes its offsets, as far as still owned."""

    error: str
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class ClientError:
    """librdkafka reported a problem that it handles itself: the first, then the 10th, 100th, ..."""

    code: str
    error: str
    count: int


@dataclass(frozen=True, slots=True)
class ClientReplaced:
    """A new librdkafka client joins the group in place of one whose partitions are `Lost`."""

    reason: str


@dataclass(frozen=True, slots=True)
class InstanceIdTaken:
    """Another member has this `group.instance.id`; its session lasts up to `remaining_s` longer."""

    group_instance_id: str
    remaining_s: float


@dataclass(frozen=True, slots=True)
class HeldMessageAtRisk(_OfHeldMessage):
    """A held message is so old that its topic may soon remove it, and what waits behind it."""

    age_s: float
    retention_ms: int


@dataclass(frozen=True, slots=True)
class WaitingBehind(_OfHeldMessage):
    """So many `messages` of its key wait behind a held one: reported each minute if it changes."""

    messages: int


@dataclass(frozen=True, slots=True)
class RetentionTooShort:
    """The strategy's total wait is longer than a source topic keeps its messages."""

    topic: str
    retention_ms: int
    strategy_total_s: float


@dataclass(frozen=True, slots=True)
class Stopped:
    """The consumer ended. A static member that has not left (`left_group`) keeps its partitions."""

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
    | PausedByHand
    | PauseEnded
    | HeldByGroup
    | GroupHoldEnded
    | StrategyReloaded
    | StrategyRefused
    | CommandAnswered
    | CircuitClosed
    | BatchTakenApart
    | DeadLettered
    | DeadLetterFailed
    | SentToRetry
    | ReturnedToSource
    | HandedOver
    | LimitReached
    | KeyBlocked
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
    | ClientReplaced
    | InstanceIdTaken
    | HeldMessageAtRisk
    | WaitingBehind
    | RetentionTooShort
    | Stopped
)

Listener: TypeAlias = Callable[[Event], object]
