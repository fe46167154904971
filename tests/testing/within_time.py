"""The guarantee that no retry is waited for beyond `max_elapsed`: for a virtual clock."""

from linear_retry import events
from linear_retry.scope import Place, Scope
from linear_retry.testing import Entry, EventEmitted, Guarantee

_LATE_S = 0.001


class WithinTime(Guarantee):
    """No wait ends later than `max_elapsed_s` after its message's first failure in that ownership.

    Waits of a circuit that has just opened are not looked at: they may be those of a letter. The
    time for which an operator has paused it, or another attempts for the group, does not count.
    """

    def __init__(self, max_elapsed_s: float) -> None:
        super().__init__()
        self._max_elapsed_s = max_elapsed_s
        self._first: dict[tuple[str, Place], EventEmitted] = {}
        self._spared_s: dict[tuple[str, Place], float] = {}

    def feed(self, entry: Entry) -> None:
        match entry:
            case EventEmitted(
                _,
                member,
                events.CircuitOpened(failures=1) | events.ProbeFailed(failures=1) as event,
            ):
                self._first[member, event.place] = entry
                self._spared_s[member, event.place] = 0.0
            case EventEmitted(_, member, events.PauseEnded(scope=scope, paused_s=paused_s)):
                self._spare(member, scope, paused_s)
            case EventEmitted(_, member, events.GroupHoldEnded(held_s=held_s)):
                self._spare(member, Scope(), held_s)
            case EventEmitted(_, member, events.ProbeFailed() as event):
                self._check(self._first.get((member, event.place)), entry, event)

    def _spare(self, member: str, scope: Scope, paused_s: float) -> None:
        for whose, place in self._spared_s:
            if whose == member and scope.covers(place[:2]):
                self._spared_s[whose, place] += paused_s

    def _check(
        self, first: EventEmitted | None, entry: EventEmitted, event: events.ProbeFailed
    ) -> None:
        if first is None:
            return
        spared_s = self._spared_s[entry.member, event.place]
        since_first_s = entry.at_s - first.at_s + event.delay_s - spared_s
        if since_first_s > self._max_elapsed_s + _LATE_S:
            text = f"{event.place} waits for a retry {since_first_s:.3f} s after its first failure"
            self._violate(text, first, entry, member=entry.member, partition=event.place[:2])
