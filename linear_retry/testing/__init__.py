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
    StateSize,
)
from linear_retry.testing.guarantees import all_guarantees
from linear_retry.testing.guarantees.commits import CommittedOnlyDone
from linear_retry.testing.guarantees.dead_letters import DeadLetteredOnlyWhenDue, LettersWithinLimit
from linear_retry.testing.guarantees.delivery import BoundedDuplicates, InOrder, NothingLost
from linear_retry.testing.guarantees.done import when_done
from linear_retry.testing.guarantees.guarantee import Guarantee, Violation, broken
from linear_retry.testing.guarantees.liveness import LiveLineNeverWaits, Liveness
from linear_retry.testing.guarantees.open_circuits import NothingWhileOpen
from linear_retry.testing.guarantees.ownership import OnlyWhileOwned
from linear_retry.testing.guarantees.retries import InOnePlace, RetriedWhenDue, WithinSequence
from linear_retry.testing.guarantees.state import BoundedState
from linear_retry.testing.guarantees.timing import NothingEarly
from linear_retry.testing.retry_hop import RetryHop

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
    "NothingWhileOpen",
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
