"""Was a probe late, or does something stand still that no open circuit stops?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from linear_retry import events
from linear_retry.scope import Partition, Scope
from linear_retry.testing import NothingLate, broken
from tests.guarantees import Entry, Said, done_places

LATE_S = 0.02


def nothing_late(log: list[Entry]) -> Iterator[str]:
    """A probe begins `LATE_S` after `retry_at` at the latest, and what was in progress."""
    yield from map(str, broken(log, [NothingLate(LATE_S)]))


def others_go_on(log: list[Entry], visible: Mapping[Partition, list[int]]) -> Iterator[str]:
    """After a stretch without faults everything is done that no open circuit stops."""
    done, stopped = done_places(log), _stopped(log)
    for partition, found in visible.items():
        undone = [offset for offset in found if (*partition, offset) not in done]
        if undone and not stopped(partition):
            yield f"{partition}: nothing stops it, and {undone[0]} is not done"


# -- inside ------------------------------------------------------------------------------------


def _stopped(log: list[Entry]) -> Callable[[Partition], bool]:
    """Whether a circuit of its owner's stops a partition, at the end of `log`."""
    owners: dict[Partition, str] = {}
    open_now: set[tuple[str, Scope]] = set()
    for entry in log:
        match entry:
            case Said(_, member, events.Assigned(partitions)):
                owners |= dict.fromkeys(partitions, member)
            case Said(_, member, events.CircuitOpened(scope)):
                open_now.add((member, scope))
            case Said(_, member, events.CircuitClosed(scope)):
                open_now.discard((member, scope))
    return lambda key: any(
        scope.covers(key) for member, scope in open_now if member == owners.get(key)
    )
