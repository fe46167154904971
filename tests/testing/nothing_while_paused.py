"""The guarantee that nothing is attempted while it is paused, by an operator or for the group."""

from collections import defaultdict

from linear_retry import events
from linear_retry.scope import Scope
from linear_retry.testing import AttemptStarted, Crashed, Entry, EventEmitted, Guarantee


class NothingWhilePaused(Guarantee):
    """No attempt begins in what is paused, from the event on until the pause has ended.

    Where the owner thread attempts, or a worker that looks before each message.
    """

    def __init__(self) -> None:
        super().__init__()
        self._paused: dict[str, dict[Scope, EventEmitted]] = defaultdict(dict)
        self._held: dict[str, EventEmitted] = {}

    def feed(self, entry: Entry) -> None:
        match entry:
            case EventEmitted(_, member, events.PausedByHand(scope=scope)):
                self._paused[member][scope] = entry
            case EventEmitted(_, member, events.PauseEnded(scope=scope)):
                self._paused[member].pop(scope, None)
            case EventEmitted(_, member, events.HeldByGroup()):
                self._held[member] = entry
            case EventEmitted(_, member, events.GroupHoldEnded()):
                self._held.pop(member, None)
            case Crashed(_, member):
                self._paused.pop(member, None)
                self._held.pop(member, None)
            case AttemptStarted(_, member, place):
                for scope, said in self._paused[member].items():
                    if scope.covers(place[:2]):
                        self._violate(
                            f"{place} is attempted, and paused", said, entry, member=member
                        )
                if member in self._held:
                    text = f"{place} is attempted, and held for the group"
                    self._violate(text, self._held[member], entry, member=member)
