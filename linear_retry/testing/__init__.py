"""Tools for testing your own consumers."""

from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from linear_retry.scope import Place
from linear_retry.testing.event_log import (
    Appended,
    AttemptFinished,
    AttemptStarted,
    Committed,
    Crashed,
    Disturbed,
    Entry,
    EventEmitted,
    EventLog,
    Idle,
    RetryHop,
    StateSize,
)
from linear_retry.testing.guarantees import all_guarantees
from linear_retry.testing.guarantees.commits import CommittedOnlyDone, OnlyWhileOwned
from linear_retry.testing.guarantees.dead_letters import DeadLetteredOnlyWhenDue, LettersWithinLimit
from linear_retry.testing.guarantees.delivery import (
    BoundedDuplicates,
    InOrder,
    NothingLost,
    OneAtATime,
)
from linear_retry.testing.guarantees.done import when_done
from linear_retry.testing.guarantees.guarantee import BoundedState, Guarantee, Violation, broken
from linear_retry.testing.guarantees.liveness import LiveLineNeverWaits, Liveness
from linear_retry.testing.guarantees.open_circuits import (
    NothingEarly,
    NothingWhileHeld,
    NothingWhileOpen,
)
from linear_retry.testing.guarantees.retries import InOnePlace, RetriedWhenDue, WithinSequence

__all__ = [
    "Appended",
    "AttemptFinished",
    "AttemptStarted",
    "BoundedDuplicates",
    "BoundedState",
    "Committed",
    "CommittedOnlyDone",
    "Crashed",
    "DeadLetteredOnlyWhenDue",
    "Disturbed",
    "EmbeddedKafka",
    "Entry",
    "EventEmitted",
    "EventLog",
    "Guarantee",
    "Idle",
    "InOnePlace",
    "InOrder",
    "LettersWithinLimit",
    "LiveLineNeverWaits",
    "Liveness",
    "NothingEarly",
    "NothingLost",
    "NothingWhileHeld",
    "NothingWhileOpen",
    "OneAtATime",
    "OnlyWhileOwned",
    "Place",
    "RetriedWhenDue",
    "RetryHop",
    "StateSize",
    "Violation",
    "WithinSequence",
    "all_guarantees",
    "broken",
    "when_done",
]
