"""Where the members stand, by what the log says."""

from collections.abc import Iterable

from linear_retry import events
from linear_retry.scope import Partition
from linear_retry.testing import (
    AttemptFinished,
    AttemptStarted,
    Committed,
    Crashed,
    Entry,
    EventEmitted,
)
from tests.scenarios.scene import Member


def reached(log: Iterable[Entry]) -> list[tuple[Partition, int]]:
    """What each partition's owner has committed itself since it was given it, -1 for nothing.

    Where the mock gives a partition to one member before the other has let it go (KIP-848), the
    other may end it, and the owner take back what is committed to where it began, for a while.
    """
    own: dict[tuple[str, Partition], int] = {}
    for entry in log:
        match entry:
            case EventEmitted(_, member, events.Assigned(partitions)):
                own |= {(member, key): -1 for key in partitions}
            case EventEmitted(_, member, events.Revoked(partitions) | events.Lost(partitions, _)):
                for key in partitions:
                    own.pop((member, key), None)
            case Committed(_, member, offsets):
                reported = {(member, key): offset for key, offset in offsets.items()}
                own |= {key: offset for key, offset in reported.items() if key in own}
            case EventEmitted(_, member, events.Stopped()) | Crashed(_, member):
                own = {key: at for key, at in own.items() if key[0] != member}
    return [(key, at) for (_, key), at in own.items()]


def state(log: list[Entry], name: str, member: Member) -> str:
    """What this member is at: guessed from outside, so a moment old."""
    last = next((entry for entry in reversed(log) if entry.member == name), None)
    match last:
        case None:
            return "joining"
        case AttemptStarted():
            return "in the handler"
        case AttemptFinished(outcome="failed"):
            return "waiting for a letter"
    states = {view.state for view in member.consumer.circuits.values()} - {"closed"}
    return min(states, default="closed")
