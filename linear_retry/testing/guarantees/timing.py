"""Timing: no attempt before its time."""

from collections.abc import Sequence

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

_CLOCK_GRAIN_S = 1e-6


class NothingEarly(Guarantee):
    """Attempt k + 1 begins at or after the end of attempt k plus its delay.

    Or when an operator requests it (`RetriedNow`), for that one attempt.
    """

    def __init__(self) -> None:
        super().__init__()
        self._ended: dict[tuple[str, Place], AttemptFinished] = {}
        self._not_before: dict[tuple[str, Place], tuple[float, AttemptFinished]] = {}

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
                self._expect(member, event.place, event.delay_s)
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
            text = f"{entry.place} was attempted {early_s:.6f} s early by {entry.member}"
            self._violate(
                text, not_before[1], entry, member=entry.member, partition=entry.place[:2]
            )
