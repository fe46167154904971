"""Open circuits: only the held message is attempted in their scope, and not before its time."""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
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
from linear_retry.testing.guarantees.lanes import Keys, Lanes

_EVENT_BEHIND_S = 0.05
"""If the attempt was not seen, the delay counts from the event, which is a little later."""

_CLOCK_GRAIN_S = 1e-6


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
            case EventEmitted(_, member, events.KeyBlocked() as event):
                self._open[member][event.scope] = _OpenCircuit(entry, event.place, math.inf)
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


class NothingWhileHeld(Guarantee):
    """While a key's message is held, no other of that key is attempted.

    If its letter could not be sent, not even that: the sending is retried.
    """

    def __init__(self, keys: Keys) -> None:
        super().__init__()
        self._lanes = Lanes(keys=keys)
        self._held: dict[str, dict[Hashable, _OpenCircuit]] = defaultdict(dict)
        self._places: dict[tuple[str, Scope], Place] = {}

    def feed(self, entry: Entry) -> None:
        match entry:
            case Crashed(_, member):
                self._held.pop(member, None)
            case AttemptStarted(_, member, place):
                item = self._held[member].get(self._lanes.of(place))
                if item is not None and (item.held != place or item.letter_failed):
                    text = f"{place} was attempted while {item.held} was held by {member}"
                    self._violate(text, item.said, entry, member=member, partition=place[:2])
            case EventEmitted(
                _,
                member,
                events.CircuitOpened()
                | events.ProbeFailed()
                | events.LimitReached()
                | events.KeyBlocked()
                | events.DeadLetterFailed() as event,
            ) if event.scope.key is not None:
                is_letter = isinstance(event, events.DeadLetterFailed)
                item = _OpenCircuit(entry, event.place, math.inf, is_letter)
                self._held[member][self._lanes.of(event.place)] = item
                self._places[member, event.scope] = event.place
            case EventEmitted(_, member, events.CircuitClosed(scope)) if scope.key is not None:
                held = self._places.pop((member, scope), None)
                if held is not None:
                    self._held[member].pop(self._lanes.of(held), None)


class NothingEarly(Guarantee):
    """Attempt k + 1 begins at or after the end of attempt k plus its delay.

    Or when an operator requests it (`RetriedNow`), for that one attempt: one that is blocked has no
    other. With `by_key` this is so of the circuits of keys: a message that a wide circuit has made
    wait is begun when that closes.
    """

    def __init__(self, *, by_key: bool = False) -> None:
        super().__init__()
        self._by_key = by_key
        self._ended: dict[tuple[str, Place], AttemptFinished] = {}
        self._not_before: dict[tuple[str, Place], tuple[float, Entry]] = {}

    def feed(self, entry: Entry) -> None:
        match entry:
            case AttemptFinished(_, member, place, "failed"):
                self._ended[member, place] = entry
            case AttemptFinished(_, member, place):
                self._ended.pop((member, place), None)
            case AttemptStarted(_, member, place) if self._not_before:
                self._check(entry)
            case EventEmitted(
                _,
                member,
                events.CircuitOpened() | events.ProbeFailed() | events.LimitReached() as event,
            ):
                if event.scope.key is not None or not self._by_key:
                    self._expect(member, event.place, event.delay_s)
            case EventEmitted(_, member, events.KeyBlocked() as event):
                self._not_before[member, event.place] = math.inf, entry
            case Crashed(_, member):
                self._forget(member, None)
            case EventEmitted(_, member, events.RetriedNow() as event):
                self._not_before.pop((member, event.place), None)
            case EventEmitted(_, member, events.Revoked() | events.Lost() as event):
                self._forget(member, event.partitions)
            case EventEmitted(
                _,
                member,
                events.DeadLettered()
                | events.SentToRetry()
                | events.HandedOver()
                | events.Skipped() as event,
            ):
                self._ended.pop((member, event.place), None)

    def _forget(self, member: str, gone: Sequence[Partition] | None) -> None:
        """Forgets the member's attempts in these partitions; None: in all."""
        for known in (self._ended, self._not_before):
            for key in [key for key in known if key[0] == member]:
                if gone is None or key[1][:2] in gone:
                    del known[key]

    def _expect(self, member: str, place: Place, delay_s: float) -> None:
        ended = self._ended.get((member, place))
        if ended is not None:
            self._not_before[member, place] = ended.at_s + delay_s, ended

    def _check(self, entry: AttemptStarted) -> None:
        not_before = self._not_before.pop((entry.member, entry.place), None)
        if not_before is None:
            return
        early_s = not_before[0] - entry.at_s
        if early_s > _CLOCK_GRAIN_S:
            how = "though it waits for an operator,"
            if math.isfinite(early_s):
                how = f"{early_s:.6f} s early"
            text = f"{entry.place} was attempted {how} by {entry.member}"
            self._violate(
                text, not_before[1], entry, member=entry.member, partition=entry.place[:2]
            )
