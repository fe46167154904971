"""Counts what happened in a play."""

from collections import Counter
from collections.abc import Iterable

from linear_retry.events import (
    CircuitOpened,
    ClientReplaced,
    DeadLettered,
    Event,
    HandedOver,
    KeyBlocked,
    Lost,
    PartitionRevived,
    RetriedNow,
    Revoked,
    SentToRetry,
)
from linear_retry.testing import AttemptStarted, Entry, EventEmitted

_COUNTED: dict[type[Event], str] = {
    CircuitOpened: "openings",
    DeadLettered: "dead letters",
    SentToRetry: "hops",
    HandedOver: "handed over",
    KeyBlocked: "keys blocked",
    Revoked: "revokes",
    Lost: "losses",
    PartitionRevived: "revivals",
    ClientReplaced: "clients renewed",
    RetriedNow: "probes that operators wanted",
}


def happened(entries: Iterable[Entry]) -> Counter[str]:
    """For people, to see that it was no play of which nothing comes."""
    counts: Counter[str] = Counter()
    for entry in entries:
        match entry:
            case AttemptStarted():
                counts["attempts"] += 1
            case EventEmitted(event=event) if type(event) in _COUNTED:
                counts[_COUNTED[type(event)]] += 1
    return counts
