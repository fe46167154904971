"""Dead letters: no message leaves the line too early or too late."""

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
    RetryHop,
)
from linear_retry.testing.guarantees.guarantee import Guarantee
from linear_retry.testing.guarantees.retries import Retries


@dataclass(slots=True)
class _FailedMessage:
    """A message in one assignment. `revoked`: that has ended; its letter may still be in flight.

    `hop` is the one by which it came, if it came through a retry topic. `restored` failures are
    those of owners before.
    """

    first: Entry
    hop: RetryHop | None = None
    restored: int = 0
    failures: int = 0
    held_back: int = 0
    revoked: bool = False


class DeadLetteredOnlyWhenDue(Guarantee):
    """A dead letter follows a failed attempt in the same ownership, and is never too early.

    Failures of an earlier owner count where the circuit has opened with them, before an attempt.
    `exhausted`: after exactly the strategy's failures plus one, or after fewer if it has
    `max_elapsed`; one more for each time that the limit of letters in a row held it back, and where
    a letter was not sent before its owner went. A letter sent before its partition was revoked may
    be acknowledged afterwards, but before the member attempts anything else. All this holds for one
    that is sent to a retry topic or handed over, too.
    """

    def __init__(
        self,
        strategy_length: int | None,
        *,
        max_elapsed: bool = False,
        retries: Retries | None = None,
        retry_strategy_length: int | None = 0,
        batches: bool = False,
        by_key: bool = False,
    ) -> None:
        """`strategy_length`: the number of delays; None if the last is repeated for ever.

        `max_elapsed`: the strategy has one, so that a message may be exhausted after fewer.
        `retries`: of a log with a retry line, whose blocking strategy has `retry_strategy_length`.
        `batches`: of `run_batches`, where a message may fail alone once more after its batch.
        `by_key`: of `scope="key"`, where the failure of a probe of a whole outage may not count.
        """
        super().__init__()
        self._strategy_length = strategy_length
        self._max_elapsed = max_elapsed
        self._retries = retries
        self._retry_strategy_length = retry_strategy_length
        self._batches = batches
        self._may_not_count = batches or by_key
        self._hops: dict[Place, RetryHop] = {}
        self._failed: dict[str, dict[Place, _FailedMessage]] = defaultdict(dict)
        self._with_revoked: set[str] = set()

    def feed(self, entry: Entry) -> None:
        match entry:
            case AttemptStarted(_, member, place, hop):
                if hop is not None:
                    self._hops[place] = hop
                if member in self._with_revoked:
                    self._drop_revoked(member)
            case AttemptFinished(_, member, place, "failed"):
                failed = self._failed[member].setdefault(place, _FailedMessage(entry))
                failed.hop = self._hops.get(place)
                failed.failures += 1
            case EventEmitted(_, member, events.CircuitOpened() | events.KeyBlocked() as event):
                known = self._failed[member].get(event.place)
                if known is None or known.revoked:
                    # Not attempted here yet: its failures are those of the owners before, whose
                    # letters of it may not have been sent.
                    before = event.failures
                    hop = self._hops.get(event.place)
                    restored = _FailedMessage(entry, hop, restored=before, failures=before)
                    self._failed[member][event.place] = restored
            case AttemptFinished(_, member, place, "done"):
                self._failed[member].pop(place, None)
                self._hops.pop(place, None)
            case EventEmitted(_, member, events.Skipped() as event):
                self._failed[member].pop(event.place, None)
            case EventEmitted(_, member, events.LimitReached() as event):
                message = self._failed[member].get(event.place)
                if message is not None:
                    message.held_back += 1
            case EventEmitted(_, _, events.DeadLettered() as event):
                self._check(entry, event, "has a dead letter", event.reason)
            case EventEmitted(_, _, events.SentToRetry() as event):
                self._check(entry, event, "was sent to retry", "exhausted")
            case EventEmitted(_, _, events.HandedOver() as event):
                self._check(entry, event, "was handed over", "exhausted")
            case EventEmitted(_, member, events.Revoked() | events.Lost() as event):
                self._revoke(member, event.partitions)

    def _check(
        self,
        said: EventEmitted,
        event: events.DeadLettered | events.SentToRetry | events.HandedOver,
        what: str,
        reason: str,
    ) -> None:
        place = event.place
        message = self._failed[said.member].pop(place, None)
        self._hops.pop(place, None)
        if message is None:
            if reason != "permanent" or not self._is_in_retry_topic(place):
                self._report(said, None, place, f"{what}, and no attempt of it has failed")
            return
        if message.hop is None and self._batches and self._is_in_retry_topic(place):
            return  # of a batch only the first message's failures before this are in the log
        of_hop = 0 if message.hop is None else message.hop.failures
        if self._may_not_count:  # where a batch has got on, the count begins again, too
            message.failures = min(message.failures, event.failures - of_hop)
        seen = message.failures + of_hop
        if event.failures != seen:
            text = f"{what} of {event.failures} failures, and {seen} were seen"
            self._report(said, message.first, place, text)
        elif reason == "exhausted" and not self._is_exhausted(message):
            text = f"was exhausted after {message.failures} failures"
            self._report(said, message.first, place, text)

    def _is_in_retry_topic(self, place: Place) -> bool:
        """What is no retry is dead-lettered there, and not attempted."""
        return self._retries is not None and self._retries.delay_ms(place.topic) is not None

    def _is_exhausted(self, message: _FailedMessage) -> bool:
        is_retry = message.hop is not None
        length = self._retry_strategy_length if is_retry else self._strategy_length
        if length is None:
            return False
        least = length + 1
        most = max(least, message.restored + 1) + message.held_back + self._batches
        return (self._max_elapsed or least <= message.failures) and message.failures <= most

    def _report(self, said: EventEmitted, first: Entry | None, place: Place, what: str) -> None:
        text = f"{place} {what}, in {said.member}"
        self._violate(text, first, said, member=said.member, partition=place[:2])

    def _drop_revoked(self, member: str) -> None:
        self._with_revoked.discard(member)
        failed = self._failed[member]
        self._failed[member] = {p: message for p, message in failed.items() if not message.revoked}

    def _revoke(self, member: str, partitions: Iterable[Partition]) -> None:
        revoked = {*partitions}
        for place, message in self._failed[member].items():
            if place[:2] in revoked:
                message.revoked = True
                self._with_revoked.add(member)


class LettersWithinLimit(Guarantee):
    """After `limit` dead letters in a row without a success, only an operator causes another.

    That is a give-up, or `lift_limit`. What is sent to retry topics is in the same row, and no more
    of that is sent after `retry_limit`; what `Recovery` takes is in it, too, with `recovery_limit`.

    `DeadLetters(topic, limit=...)`, `RetryTopics` and `Recovery` promise it, for the letters that a
    member knows of: not for those that were found in the topic after it had crashed.
    """

    def __init__(
        self,
        limit: int | None,
        *,
        retry_limit: int | None = None,
        recovery_limit: int | None = None,
    ) -> None:
        """None: any number."""
        super().__init__()
        self._limit = inf if limit is None else limit
        self._retry_limit = inf if retry_limit is None else retry_limit
        self._recovery_limit = inf if recovery_limit is None else recovery_limit
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
                self._lifted[member] = len(self._consecutive[member]) + more
            case EventEmitted(_, member, events.DeadLettered(reason="given-up")):
                self._consecutive.pop(member, None)
            case EventEmitted(_, member, events.DeadLettered() as event):
                self._sent(entry, event.place, member, self._limit)
            case EventEmitted(_, member, events.SentToRetry() as event):
                self._sent(entry, event.place, member, self._retry_limit)
            case EventEmitted(_, member, events.HandedOver() as event):
                self._sent(entry, event.place, member, self._recovery_limit)

    def _sent(self, said: EventEmitted, place: Place, member: str, limit: float) -> None:
        if member in self._crashed:
            return
        sent = self._consecutive[member]
        sent.append(said)
        if len(sent) > max(self._lifted.get(member, 0), limit):
            text = f"{place} has letter {len(sent)} in a row, in {member}"
            self._violate(text, sent[0], said, member=member)
