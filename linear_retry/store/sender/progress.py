"""What a sender tells its listener; by default it is logged."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from linear_retry.log.lines import log_sender
from linear_retry.store.records import Service


@dataclass(frozen=True, slots=True)
class LeasesTaken:
    """This instance sends the messages of more lanes; of none, once, if others have all leases."""

    service: Service
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sent:
    """Messages of one batch are acknowledged, and deleted from the store."""

    service: Service
    count: int
    latest_ms: int
    """How late the latest of them was: from its due time to the end, by the database's clock."""


@dataclass(frozen=True, slots=True)
class LaneHeld:
    """A lane waits, for its destination is missing or refuses its first message."""

    service: Service
    destination: str
    slot: str
    failures: int
    wait_s: float
    error: str


@dataclass(frozen=True, slots=True)
class LaneResumed:
    """A lane that was held is sent again."""

    service: Service
    destination: str
    slot: str


@dataclass(frozen=True, slots=True)
class MessageDied:
    """A message became a dead letter of the store."""

    service: Service
    destination: str
    retry_id: str
    reason: str
    error: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """Nothing can be sent: the brokers, or the store, do not answer."""

    service: Service
    away: Literal["brokers", "store"]
    error: str


@dataclass(frozen=True, slots=True)
class Resumed:
    """What was away answers again."""

    service: Service
    away: Literal["brokers", "store"]


Progress: TypeAlias = LeasesTaken | Sent | LaneHeld | LaneResumed | MessageDied | Waiting | Resumed
Listener: TypeAlias = Callable[[Progress], object]


def log_progress(event: Progress) -> None:
    """Writes one line for each event but `Sent`. Never logs keys or values."""
    level: Literal["INFO", "WARNING", "ERROR"]
    match event:
        case Sent():
            return
        case LeasesTaken(service, ()):
            level, text = "INFO", f"{service}: stands by, as others have all leases"
        case LeasesTaken(service, numbers):
            level, text = "INFO", f"{service}: sends the lanes of leases {list(numbers)}"
        case LaneHeld(service, destination, slot, failures, wait_s, error):
            level = "WARNING"
            text = (
                f"{service}: {destination} (lane {slot}) is held for {wait_s:g} s after failure "
                f"{failures}: {error}"
            )
        case LaneResumed(service, destination, slot):
            level, text = "INFO", f"{service}: {destination} (lane {slot}) continues"
        case MessageDied(service, destination, retry_id, reason, error):
            level = "ERROR"
            text = f"{service}: {retry_id} for {destination} is a dead letter ({reason}): {error}"
        case Waiting(service, away, error):
            level, text = "WARNING", f"{service}: sending waits for the {away}: {error}"
        case Resumed(service, away):
            level, text = "INFO", f"{service}: sending continues after the outage of the {away}"
    log_sender(text, event, level=level)
