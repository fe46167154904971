"""The guarantee that no probe is late: for a virtual clock, on which nothing else takes time."""

from collections import defaultdict
from dataclasses import dataclass

from linear_retry import events
from linear_retry.scope import Place, Scope
from linear_retry.testing import (
    AttemptFinished,
    AttemptStarted,
    Entry,
    EventEmitted,
    Guarantee,
    Idle,
)

_CLOCK_GRAIN_S = 1e-6
_OTHERS_BEFORE = 1
"""So many other messages may be begun after `retry_at`: a circuit that is always due must not
stop what is outside its scope."""


@dataclass(slots=True)
class _OpenCircuit:
    """A circuit, and what its member did since `retry_at`. `held` None: any message probes it."""

    emitted: EventEmitted | AttemptStarted
    held: Place | None
    retry_at_s: float
    idle_s: float = 0.0
    others: int = 0


class NothingLate(Guarantee):
    """A probe begins `late_s` after `retry_at` at the latest, and what was in progress.

    In progress are the handler's calls, for this and for other circuits, and the sending of
    letters: one thread does it all. For a clock on which nothing else takes time, a virtual one.
    """

    def __init__(self, late_s: float = 0.02) -> None:
        super().__init__()
        self._late_s = late_s
        self._open: dict[str, dict[Scope, _OpenCircuit]] = defaultdict(dict)
        self._before_s: dict[str, float] = {}
        # Until it is known whether a letter was in progress.
        self._idle_spans: dict[str, list[tuple[float, float]]] = defaultdict(list)

    def feed(self, entry: Entry) -> None:
        member = entry.member
        spans = self._idle_spans[member]
        before_s = self._before_s.get(member, entry.at_s)
        match entry:
            case AttemptStarted(at_s):
                for span in (*spans, (before_s, at_s)):
                    self._add_idle(member, *span)
                self._check(entry)
            case Idle(_, _, since_s):
                spans.append((before_s, since_s))
            case EventEmitted():
                self._on_event(entry)
            case AttemptFinished():
                pass
            case _:
                return  # written by who watches: the member has not moved
        if not isinstance(entry, Idle):
            spans.clear()
        self._before_s[member] = entry.at_s

    def _check(self, entry: AttemptStarted) -> None:
        open_now = self._open[entry.member]
        probed = _probed(open_now, entry.place)
        if probed is None:
            for item in open_now.values():
                item.others += entry.at_s > item.retry_at_s + _CLOCK_GRAIN_S
            return
        item, open_now[probed] = open_now[probed], _OpenCircuit(entry, entry.place, float("inf"))
        if item.held is not None and item.idle_s > self._late_s:
            self._late(item, entry, f"is {item.idle_s:.3f} s late")
        if item.held is not None and item.others > _OTHERS_BEFORE:
            others = f"had to wait for {item.others} others that were begun after retry_at"
            self._late(item, entry, others)

    def _late(self, item: _OpenCircuit, entry: AttemptStarted, what: str) -> None:
        text = f"the probe of {entry.place} by {entry.member} {what}"
        self._violate(text, item.emitted, entry, member=entry.member)

    def _on_event(self, emitted: EventEmitted) -> None:
        open_now, event = self._open[emitted.member], emitted.event
        match event:
            case events.CircuitOpened() | events.ProbeFailed() | events.LimitReached():
                retry_at_s = emitted.at_s + event.delay_s
                open_now[event.scope] = _OpenCircuit(emitted, event.place, retry_at_s)
            case events.DeadLetterFailed():  # its probe is the sending, whose begin nobody sees
                open_now[event.scope] = _OpenCircuit(emitted, event.place, float("inf"))
            case events.CircuitClosed():
                open_now.pop(event.scope, None)
            case events.PauseEnded(scope=scope):
                self._resumed(scope, emitted)
            case events.GroupHoldEnded():
                self._resumed(Scope(), emitted)
            case events.Revoked() | events.Lost():
                for item in open_now.values():
                    if item.held is not None and item.held[:2] in event.partitions:
                        item.held, item.retry_at_s = None, float("inf")

    def _resumed(self, scope: Scope, emitted: EventEmitted) -> None:
        for item in self._open[emitted.member].values():
            if item.held is None or scope.covers(item.held[:2]):
                item.idle_s, item.others = 0.0, 0
                item.retry_at_s = max(item.retry_at_s, emitted.at_s)

    def _add_idle(self, member: str, from_s: float, to_s: float) -> None:
        for item in self._open[member].values():
            item.idle_s += max(to_s - max(from_s, item.retry_at_s), 0.0)


def _probed(open_now: dict[Scope, _OpenCircuit], place: Place) -> Scope | None:
    for scope, item in open_now.items():
        if scope.covers(place[:2]) and item.held in (None, place):
            return scope
    return None
