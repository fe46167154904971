"""Dead letters: no message is given up too early or too late."""

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
class _FailedMessage:
    """A message in one assignment. `gone`: that has ended; its letter may still be in flight."""

    first: AttemptFinished
    failures: int = 0
    held_back: int = 0
    revoked: bool = False


class DeadLetteredOnlyWhenDue(Guarantee):
    """A dead letter follows a failed attempt in the same ownership, and is never too early.

    `exhausted`: after exactly the strategy's failures plus one, or after fewer if it has
    `max_elapsed`; and one more for each time that the limit of letters in a row held it back. A
    letter sent before its partition was revoked may be acknowledged afterwards, but before the
    member attempts anything else.
    """

    def __init__(self, strategy_length: int | None, *, max_elapsed: bool = False) -> None:
        """`strategy_length`: the number of delays; None if the last is repeated for ever.

        `max_elapsed`: the strategy has one, so that a message may be exhausted after fewer.
        """
        super().__init__()
        self._strategy_length = strategy_length
        self._max_elapsed = max_elapsed
        self._failed: dict[str, dict[Place, _FailedMessage]] = defaultdict(dict)
        self._with_revoked: set[str] = set()

    def feed(self, entry: Entry) -> None:
        match entry:
            case AttemptStarted(_, member) if member in self._with_revoked:
                self._with_revoked.discard(member)
                failed = self._failed[member]
                self._failed[member] = {
                    p: message for p, message in failed.items() if not message.revoked
                }
            case AttemptFinished(_, member, place, "failed"):
                self._failed[member].setdefault(place, _FailedMessage(entry)).failures += 1
            case AttemptFinished(_, member, place, "done"):
                self._failed[member].pop(place, None)
            case EventEmitted(_, member, events.Skipped() as event):
                self._failed[member].pop(event.place, None)
            case EventEmitted(_, member, events.LimitReached() as event):
                message = self._failed[member].get(event.place)
                if message is not None:
                    message.held_back += 1
            case EventEmitted(_, _, events.DeadLettered() as event):
                self._check(entry, event)
            case EventEmitted(_, member, events.Revoked() | events.Lost() as event):
                self._revoke(member, event.partitions)

    def _check(self, said: EventEmitted, event: events.DeadLettered) -> None:
        place = event.place
        message = self._failed[said.member].pop(place, None)
        if message is None:
            self._report(said, None, place, "has a dead letter, and no attempt of it has failed")
        elif event.failures != message.failures:
            text = (
                f"has a dead letter of {event.failures} failures, and {message.failures} were seen"
            )
            self._report(said, message.first, place, text)
        elif event.reason == "exhausted" and not self._is_exhausted(message):
            text = f"was exhausted after {message.failures} failures"
            self._report(said, message.first, place, text)

    def _is_exhausted(self, message: _FailedMessage) -> bool:
        if self._strategy_length is None:
            return False
        least = self._strategy_length + 1
        return (self._max_elapsed or least <= message.failures) and (
            message.failures <= least + message.held_back
        )

    def _report(self, said: EventEmitted, first: Entry | None, place: Place, what: str) -> None:
        text = f"{place} {what}, in {said.member}"
        self._violate(text, first, said, member=said.member, partition=place[:2])

    def _revoke(self, member: str, partitions: Iterable[Partition]) -> None:
        revoked = {*partitions}
        for place, message in self._failed[member].items():
            if place[:2] in revoked:
                message.revoked = True
                self._with_revoked.add(member)


class LettersWithinLimit(Guarantee):
    """After `limit` dead letters in a row without a success, only an operator causes another.

    That is a give-up, or `lift_limit`.

    `DeadLetters(topic, limit=...)` promises it, for the letters that a member knows of: not for
    those that were found in the topic after it had crashed.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit
        self._consecutive: dict[str, list[EventEmitted]] = defaultdict(list)
        self._lifted: dict[str, float] = {}
        self._crashed: set[str] = set()

    def feed(self, entry: Entry) -> None:
        match entry:
            case AttemptStarted(_, member):
                self._crashed.discard(member)
            case Crashed(_, member):
                self._consecutive.pop(member, None)
                self._lifted.pop(member, None)
                self._crashed.add(member)
            case AttemptFinished(_, member, _, "done"):
                self._consecutive.pop(member, None)
                self._lifted.pop(member, None)
            case EventEmitted(_, member, events.LimitLifted(letters)):
                more = inf if letters is None else letters
                self._lifted[member] = max(len(self._consecutive[member]) + more, self._limit)
            case EventEmitted(_, member, events.DeadLettered(reason="given-up")):
                self._consecutive.pop(member, None)
            case EventEmitted(_, member, events.DeadLettered() as event) if (
                member not in self._crashed
            ):
                sent = self._consecutive[member]
                sent.append(entry)
                if len(sent) > self._lifted.get(member, self._limit):
                    text = f"{event.place} has letter {len(sent)} in a row, in {member}"
                    self._violate(text, sent[0], entry, member=member)
