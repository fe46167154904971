"""Was a probe late, or does something stand still that no open circuit stops?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from linear_retry import events
from linear_retry.scope import Partition, Scope
from tests.guarantees import Away, Begun, Entry, Place, Said, done_places

LATE_S = 0.02
"""So long after `retry_at` a probe begins at the latest, if its member is free."""
OTHERS_BEFORE = 1
"""So many other messages may be begun after `retry_at`: a circuit that is always due must not
stop what is outside its scope."""

_CLOCK_GRAIN_S = 1e-6


@dataclass(slots=True)
class _Open:
    """A circuit, and what its member did since `retry_at`. `held` None: any message probes it."""

    held: Place | None
    retry_at_s: float
    idle_s: float = 0.0
    others: int = 0


def nothing_late(log: list[Entry]) -> Iterator[str]:
    """A probe begins `LATE_S` after `retry_at` at the latest, and what was in progress.

    In progress are the handler's calls, for this and for other circuits, and the sending of
    letters: one thread does it all. For a virtual clock, where nothing else takes time.
    """
    for member in sorted({entry.member for entry in log}):
        yield from _late_probes([entry for entry in log if entry.member == member])


def others_go_on(log: list[Entry], visible: Mapping[Partition, list[int]]) -> Iterator[str]:
    """After a stretch without faults everything is done that no open circuit stops."""
    done, stopped = done_places(log), _stopped(log)
    for partition, found in visible.items():
        undone = [offset for offset in found if (*partition, offset) not in done]
        if undone and not stopped(partition):
            yield f"{partition}: nothing stops it, and {undone[0]} is not done"


# -- inside ------------------------------------------------------------------------------------


def _late_probes(log: list[Entry]) -> Iterator[str]:
    """Of one member."""
    open_now: dict[Scope, _Open] = {}
    before_s = log[0].at_s
    for entry in log:
        match entry:
            case Begun(at_s):
                _idle(open_now, before_s, at_s)
                yield from _begun(open_now, entry)
            case Away(_, _, since_s):
                _idle(open_now, before_s, since_s)
            case Said(at_s, _, event):
                _hear(open_now, at_s, event)
        before_s = entry.at_s


def _begun(open_now: dict[Scope, _Open], entry: Begun) -> Iterator[str]:
    probed = _probed(open_now, entry.place)
    if probed is None:
        for item in open_now.values():
            item.others += entry.at_s > item.retry_at_s + _CLOCK_GRAIN_S
        return
    item, open_now[probed] = open_now[probed], _Open(entry.place, float("inf"))
    probe = f"{entry.at_s:.3f} {entry.member}: the probe {entry.place}"
    if item.held is not None and item.idle_s > LATE_S:
        yield f"{probe} is {item.idle_s:.3f} s late"
    if item.held is not None and item.others > OTHERS_BEFORE:
        yield f"{probe} had to wait for {item.others} others that were begun after retry_at"


def _probed(open_now: Mapping[Scope, _Open], place: Place) -> Scope | None:
    for scope, item in open_now.items():
        if scope.covers(place[:2]) and item.held in (None, place):
            return scope
    return None


def _hear(open_now: dict[Scope, _Open], at_s: float, event: events.Event) -> None:
    match event:
        case events.CircuitOpened() | events.ProbeFailed() | events.LimitReached():
            held = (event.topic, event.partition, event.offset)
            open_now[event.scope] = _Open(held, at_s + event.delay_s)
        case events.DeadLetterFailed():  # its probe is the sending, of which nobody sees the begin
            held = (event.topic, event.partition, event.offset)
            open_now[event.scope] = _Open(held, float("inf"))
        case events.CircuitClosed():
            open_now.pop(event.scope, None)
        case events.Revoked() | events.Lost():
            for item in open_now.values():
                if item.held is not None and item.held[:2] in event.partitions:
                    item.held, item.retry_at_s = None, float("inf")


def _idle(open_now: Mapping[Scope, _Open], from_s: float, to_s: float) -> None:
    for item in open_now.values():
        item.idle_s += max(to_s - max(from_s, item.retry_at_s), 0.0)


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
