"""Open circuits: in their scope only the held message is attempted."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from linear_retry import events
from linear_retry.scope import Partition, Place, Scope
from linear_retry.testing.event_log import (
    AttemptFinished,
    AttemptStarted,
    Crashed,
    Entry,
    EventEmitted,
)
from linear_retry.testing.guarantees.guarantee import Guarantee

_EVENT_BEHIND_S = 0.05
"""If the attempt was not seen, the delay counts from the event, which is a little later."""


@dataclass(slots=True)
class _OpenCircuit:
    said: EventEmitted
    held: Place | None
    retry_at_s: float
    letter_failed: bool = False


class NothingWhileOpen(Guarantee):
    """While a circuit is open, only the held message in its scope is attempted.

    Or, if that was revoked, one probe at `retry_at`, or when an operator ends the wait. If the held
    message's letter could not be sent, not even that: the sending is retried. A circuit opens only
    when closed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._open: dict[str, dict[Scope, _OpenCircuit]] = defaultdict(dict)
        self._ended: dict[str, AttemptFinished] = {}

    def feed(self, entry: Entry) -> None:
        match entry:
            case AttemptFinished(_, member):
                self._ended[member] = entry
            case Crashed(_, member):
                self._ended.pop(member, None)
                self._open.pop(member, None)
            case AttemptStarted(_, member):
                for scope, item in self._open[member].items():
                    if scope.covers(entry.place[:2]):
                        self._check(entry, item)
            case EventEmitted(
                _,
                _,
                events.CircuitOpened() | events.ProbeFailed() | events.LimitReached() as event,
            ):
                self._opened(entry, event)
            case EventEmitted(at_s, member, events.DeadLetterFailed() as event):
                retry_at_s = at_s + event.delay_s
                self._open[member][event.scope] = _OpenCircuit(entry, event.place, retry_at_s, True)
            case EventEmitted(_, member, events.CircuitClosed(scope)):
                self._open[member].pop(scope, None)
            case EventEmitted(at_s, member, events.WaitEnded(scope)) if scope in self._open[member]:
                self._open[member][scope].retry_at_s = at_s
            case EventEmitted(_, member, events.Revoked() | events.Lost() as event):
                self._drop_held(member, event.partitions)

    def _opened(
        self,
        said: EventEmitted,
        event: events.CircuitOpened | events.ProbeFailed | events.LimitReached,
    ) -> None:
        before = self._open[said.member].get(event.scope)
        opens = isinstance(event, events.CircuitOpened)
        if opens == (before is not None):
            text = f"the circuit of {event.scope} {'opened' if opens else 'stayed open'}, though "
            text += "it was open" if opens else "it was not"
            first = before.said if before else None
            self._violate(text, first, said, member=said.member)
        ended = self._ended.get(said.member)
        # The delay counts from the attempt's end, so it does not include the pause and its commit.
        begun = ended if ended is not None and ended.place == event.place else said
        retry_at_s = begun.at_s + event.delay_s
        self._open[said.member][event.scope] = _OpenCircuit(said, event.place, retry_at_s)

    def _check(self, entry: AttemptStarted, item: _OpenCircuit) -> None:
        place = entry.place
        if item.held is None and entry.at_s >= item.retry_at_s - _EVENT_BEHIND_S:
            item.held = entry.place  # the one probe, after a revoke
        elif item.held != entry.place:
            held = "a message that was revoked" if item.held is None else item.held
            self._while_open(entry, item, f"{place} was attempted while the circuit of {held}")
        elif item.letter_failed:
            self._while_open(entry, item, f"{place} was attempted while the circuit of its letter")

    def _while_open(self, entry: AttemptStarted, item: _OpenCircuit, text: str) -> None:
        self._violate(f"{text} was open in {entry.member}", item.said, entry, member=entry.member)

    def _drop_held(self, member: str, partitions: Iterable[Partition]) -> None:
        gone = {*partitions}
        for item in self._open[member].values():
            if item.held and item.held[:2] in gone:
                item.held, item.letter_failed = None, False
