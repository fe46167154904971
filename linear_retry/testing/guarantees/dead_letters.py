"""Dead letters: no message is given up too early, nor too late."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from linear_retry import events
from linear_retry.scope import Partition, Place
from linear_retry.testing.event_log import (
    AttemptFinished,
    AttemptStarted,
    Crashed,
    Entry,
    EventEmitted,
)
from linear_retry.testing.guarantees.guarantee import Guarantee


@dataclass(slots=True)
class _Life:
    """A message in one ownership. `gone`: that is over, and its letter may be on its way still."""

    first: AttemptFinished
    failures: int = 0
    held_back: int = 0
    gone: bool = False


class DeadLetteredOnlyWhenDue(Guarantee):
    """A dead letter follows a failed attempt in the same ownership, and none comes too early.

    `exhausted`: after exactly the strategy's failures plus one, and one more for each time that
    the limit of letters in a row held it back. What was sent before the partition was taken back
    may be acknowledged after that, but before the member attempts anything else.
    """

    def __init__(self, strategy_length: int | None) -> None:
        """`strategy_length`: how many delays; None where the last is repeated for ever."""
        super().__init__()
        self._strategy_length = strategy_length
        self._lives: dict[str, dict[Place, _Life]] = defaultdict(dict)
        self._have_gone: set[str] = set()

    def feed(self, entry: Entry) -> None:
        match entry:
            case AttemptStarted(_, member) if member in self._have_gone:
                self._have_gone.discard(member)
                lives = self._lives[member]
                self._lives[member] = {p: life for p, life in lives.items() if not life.gone}
            case AttemptFinished(_, member, place, "failed"):
                self._lives[member].setdefault(place, _Life(entry)).failures += 1
            case AttemptFinished(_, member, place, "done"):
                self._lives[member].pop(place, None)
            case EventEmitted(_, member, events.Skipped() as event):
                self._lives[member].pop(event.place, None)
            case EventEmitted(_, member, events.LimitReached() as event):
                life = self._lives[member].get(event.place)
                if life is not None:
                    life.held_back += 1
            case EventEmitted(_, _, events.DeadLettered() as event):
                self._letter(entry, event)
            case EventEmitted(_, member, events.Revoked() | events.Lost() as event):
                self._forget(member, event.partitions)

    def _letter(self, said: EventEmitted, event: events.DeadLettered) -> None:
        place = event.place
        life = self._lives[said.member].pop(place, None)
        if life is None:
            self._undue(said, None, place, "has a dead letter, and no attempt of it has failed")
        elif event.failures != life.failures:
            text = f"has a dead letter of {event.failures} failures, and {life.failures} were seen"
            self._undue(said, life.first, place, text)
        elif event.reason == "exhausted" and not self._is_exhausted(life):
            text = f"was exhausted after {life.failures} failures"
            self._undue(said, life.first, place, text)

    def _is_exhausted(self, life: _Life) -> bool:
        if self._strategy_length is None:
            return False
        least = self._strategy_length + 1
        return least <= life.failures <= least + life.held_back

    def _undue(self, said: EventEmitted, first: Entry | None, place: Place, what: str) -> None:
        text = f"{place} {what}, in {said.member}"
        self._break(text, first, said, member=said.member, partition=place[:2])

    def _forget(self, member: str, partitions: Iterable[Partition]) -> None:
        gone = {*partitions}
        for place, life in self._lives[member].items():
            if place[:2] in gone:
                life.gone = True
                self._have_gone.add(member)


class LettersWithinLimit(Guarantee):
    """No dead letter is sent after `limit` in a row without a success, but on an operator's word.

    That is a give-up, or `lift_limit`.

    `DeadLetters(topic, limit=...)` promises it, for the letters that a member knows of: not for
    those that were found in the topic after it had died.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit
        self._rows: dict[str, list[EventEmitted]] = defaultdict(list)
        self._lifted: dict[str, float] = {}
        self._dead: set[str] = set()

    def feed(self, entry: Entry) -> None:
        match entry:
            case AttemptStarted(_, member):
                self._dead.discard(member)
            case Crashed(_, member):
                self._rows.pop(member, None)
                self._lifted.pop(member, None)
                self._dead.add(member)
            case AttemptFinished(_, member, _, "done"):
                self._rows.pop(member, None)
                self._lifted.pop(member, None)
            case EventEmitted(_, member, events.LimitLifted(letters)):
                more = inf if letters is None else letters
                self._lifted[member] = max(len(self._rows[member]) + more, self._limit)
            case EventEmitted(_, member, events.DeadLettered(reason="given-up")):
                self._rows.pop(member, None)
            case EventEmitted(_, member, events.DeadLettered() as event) if (
                member not in self._dead
            ):
                row = self._rows[member]
                row.append(entry)
                if len(row) > self._lifted.get(member, self._limit):
                    text = f"{event.place} has letter {len(row)} in a row, in {member}"
                    self._break(text, row[0], entry, member=member)
