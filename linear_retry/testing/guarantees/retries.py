"""Retry topics: each message at its time, in one place, one step after another."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias

from linear_retry import events
from linear_retry.scope import Place
from linear_retry.testing.event_log import (
    AttemptFinished,
    AttemptStarted,
    Committed,
    Crashed,
    Entry,
    EventEmitted,
    RetryHop,
)
from linear_retry.testing.guarantees.guarantee import Guarantee

_GRAIN_S = 0.001
"""Both clocks are read in whole milliseconds."""


class Delays(Protocol):
    """The part of a strategy that is needed here."""

    @property
    def delays_ms(self) -> tuple[int, ...]: ...

    @property
    def max_elapsed_s(self) -> float | None: ...


class Retries(Protocol):
    """What the guarantees need to know of a `RetryTopics`, or of a `Scheduler`."""

    @property
    def strategy(self) -> Delays: ...

    @property
    def limit(self) -> int | None: ...

    @property
    def topics(self) -> tuple[str, ...]: ...

    @property
    def is_single(self) -> bool: ...

    def delay_ms(self, topic: str) -> int | None: ...


class RetriedWhenDue(Guarantee):
    """A message in a retry topic is attempted only when its delay is over.

    Due is the time at which the broker wrote its record (`LogAppendTime`) plus the topic's delay.
    """

    def __init__(self, retries: Retries, *, skew_s: float = 0.0) -> None:
        """`skew_s`: how far the broker's clock may be ahead of the reader's."""
        super().__init__()
        self._delay_ms = retries.delay_ms
        self._grace_s = skew_s + _GRAIN_S

    def feed(self, entry: Entry) -> None:
        if not isinstance(entry, AttemptStarted) or entry.hop is None:
            return
        delay_ms = self._delay_ms(entry.place.topic)
        early_s = (delay_ms or 0) / 1000 - entry.hop.waited_s
        if delay_ms is not None and early_s > self._grace_s:
            text = f"{entry.place} was attempted {early_s:.3f} s before its delay was over"
            self._violate(text, None, entry, member=entry.member, partition=entry.place[:2])


class WithinSequence(Guarantee):
    """A message takes the steps of its retry topics one by one, and no more than there are.

    Each in a topic whose delay is not shorter than the step's. `exhausted` is only who has taken
    the last, or fewer where the strategy has `max_elapsed`. It holds over restarts, and as long as
    the strategy stays the same.
    """

    def __init__(self, retries: Retries) -> None:
        super().__init__()
        self._retries = retries
        self._delays_ms = retries.strategy.delays_ms
        self._begun: dict[Place, tuple[AttemptStarted, int]] = {}

    def feed(self, entry: Entry) -> None:
        match entry:
            case AttemptStarted(_, _, place, RetryHop(step=step)):
                self._begun[place] = entry, step
            case AttemptFinished(_, _, place, "done"):
                self._begun.pop(place, None)
            case EventEmitted(_, _, events.SentToRetry() as event):
                begun, before = self._begun.pop(event.place, (None, 0))
                is_unknown = begun is not None and before == 0  # replayed into a retry topic
                if event.step != before + 1 and not is_unknown:
                    what = f"took step {event.step} after step {before}"
                    self._report(begun, entry, event.place, what)
                self._check_topic(begun, entry, event)
            case EventEmitted(_, _, events.DeadLettered(reason="exhausted") as event):
                begun, step = self._begun.pop(event.place, (None, 0))
                if step < len(self._delays_ms) and self._retries.strategy.max_elapsed_s is None:
                    what = f"was exhausted after step {step} of {len(self._delays_ms)}"
                    self._report(begun, entry, event.place, what)
            case EventEmitted(
                _, _, events.DeadLettered() | events.HandedOver() | events.Skipped() as event
            ):
                self._begun.pop(event.place, None)

    def _check_topic(
        self, begun: Entry | None, said: EventEmitted, event: events.SentToRetry
    ) -> None:
        delay_ms = self._retries.delay_ms(event.retry_topic)
        if not self._retries.is_single and event.step > len(self._delays_ms):
            what = f"took step {event.step} of {len(self._delays_ms)}"
        elif delay_ms is None and event.retry_topic in self._retries.topics:
            return  # a scheduler's: each record has a delay of its own
        elif delay_ms is None:
            what = f"was sent to {event.retry_topic}, which is no retry topic"
        elif delay_ms < self._delays_ms[min(event.step, len(self._delays_ms)) - 1]:
            what = f"was sent to {event.retry_topic}, whose delay is shorter than step {event.step}"
        else:
            return
        self._report(begun, said, event.place, what)

    def _report(self, begun: Entry | None, said: EventEmitted, place: Place, what: str) -> None:
        text = f"{place} {what}, in {said.member}"
        self._violate(text, begun, said, member=said.member, partition=place[:2])


_State: TypeAlias = Literal["in a retry topic", "returned to its source", "done", "dead-lettered"]


@dataclass(frozen=True, slots=True)
class _Whereabouts:
    """Where a message is that has left the line, by the entry that says so.

    `untold_step` is that of the retry by which it is done, if nobody has said yet that this one has
    returned it to its source.
    """

    said: Entry
    state: _State
    step: int = 0
    replay_count: int = -1
    untold_step: int = 0

    def is_done_untold(self, event: events.ReturnedToSource) -> bool:
        """Whether it is done in its source by this very return."""
        is_there = isinstance(self.said, AttemptFinished) and self.said.place[0] == event.source
        return is_there and self.untold_step == event.step

    def is_of(self, hop: RetryHop) -> bool:
        """Whether a record with this hop is where the message is now."""
        if self.state == "dead-lettered":
            return hop.replay_count > self.replay_count
        return self.state != "done" and self.step == hop.step


def _home_of(retry_id: str) -> Place | None:
    """The place in its source that the id of a message names; None if it has another form.

    Who died amid the message did not say under which id it was sent.
    """
    parts = retry_id.rsplit("/", 4)
    is_whole = len(parts) == 5 and parts[2].isdecimal() and parts[3].isdecimal()
    return Place(parts[1], int(parts[2]), int(parts[3])) if is_whole else None


class InOnePlace(Guarantee):
    """A message that has left the line is in one place: a retry topic, done, or dead-lettered.

    Or in its source again, to which it was returned once from each retry topic.

    It may be in two, with one id, if its member had it in hand when that crashed, or lost or gave
    back its partition, or another got it; or if its record was not acknowledged in time and sent
    again.
    """

    def __init__(self) -> None:
        super().__init__()
        self._where: dict[str, _Whereabouts] = {}
        self._in_hand: dict[str, dict[Place, RetryHop | None]] = defaultdict(dict)
        self._ids: dict[Place, str] = {}
        self._doubtful: set[Place] = set()
        self._may_be_twice: set[str] = set()

    def feed(self, entry: Entry) -> None:
        match entry:
            case AttemptStarted(_, member, place, hop):
                self._in_hand[member][place] = hop
                if hop is not None:
                    self._check(entry, place, hop.retry_id, hop)
            case AttemptFinished(_, member, place, "done"):
                self._handled(entry, place)
            case EventEmitted(
                _,
                _,
                events.SentToRetry()
                | events.DeadLettered()
                | events.HandedOver()
                | events.Skipped() as event,
            ):
                self._left(entry, event)
            case EventEmitted(_, _, events.ReturnedToSource() as event):
                self._returned(entry, event)
            case EventEmitted(_, member, events.Revoked(partitions) | events.Lost(partitions)):
                self._doubt(member, lambda place: place[:2] in partitions)
            case EventEmitted(_, member, events.Assigned(partitions)):
                for other in self._in_hand.keys() - {member}:  # cut off, it does not know yet
                    self._doubt(other, lambda place: place[:2] in partitions)
            case EventEmitted(_, member, events.DeadLetterFailed() as event):
                self._doubt(member, lambda place: place == event.place)
            case Crashed(_, member):
                self._doubt(member, lambda _: True)
            case Committed():
                self._drop_committed(entry)

    def _handled(self, entry: AttemptFinished, place: Place) -> None:
        hop = self._in_hand[entry.member].get(place)
        if hop is None:
            self._in_hand[entry.member].pop(place, None)
        else:
            before = self._where.get(hop.retry_id)
            is_told = before is None or before.state != "in a retry topic"
            untold = 0 if is_told else hop.step
            self._where[hop.retry_id] = _Whereabouts(entry, "done", untold_step=untold)

    def _left(
        self,
        said: EventEmitted,
        event: events.SentToRetry | events.DeadLettered | events.HandedOver | events.Skipped,
    ) -> None:
        hop = self._in_hand[said.member].get(event.place)
        if hop is None:
            self._check(said, event.place, event.retry_id, None)
        match event:
            case events.SentToRetry(step=step):
                where = _Whereabouts(said, "in a retry topic", step)
            case events.DeadLettered():
                where = _Whereabouts(
                    said, "dead-lettered", replay_count=-1 if hop is None else hop.replay_count
                )
            case _:
                where = _Whereabouts(said, "done")
        self._where[event.retry_id] = where
        self._ids[event.place] = event.retry_id

    def _returned(self, said: EventEmitted, event: events.ReturnedToSource) -> None:
        """It was not attempted; in one transaction with its offset, so a crash is no excuse."""
        where = self._where.get(event.retry_id)
        if where is not None and where.is_done_untold(event):
            # Its live line was quicker than the retry line was to say that it has returned it.
            self._where[event.retry_id] = replace(where, untold_step=0)
            return
        if where is not None and not self._may_return(where, event):
            text = f"{event.place} was returned to {event.source}, and is {where.state} already"
            self._violate(text, where.said, said)
        self._where[event.retry_id] = _Whereabouts(said, "returned to its source", event.step)

    def _may_return(self, where: _Whereabouts, event: events.ReturnedToSource) -> bool:
        before = where.said.event if isinstance(where.said, EventEmitted) else None
        if isinstance(before, events.ReturnedToSource) and before.place == event.place:
            return False
        is_there = where.state == "in a retry topic" and where.step == event.step
        is_replayed = where.state == "dead-lettered"
        return is_there or is_replayed or event.retry_id in self._may_be_twice

    def _check(
        self,
        entry: AttemptStarted | EventEmitted,
        place: Place,
        retry_id: str,
        hop: RetryHop | None,
    ) -> None:
        """A message that comes by no hop has not left the line, or was replayed since."""
        if place in self._doubtful or _home_of(retry_id) in self._doubtful:
            self._may_be_twice.add(retry_id)
        where = self._where.get(retry_id)
        if where is None or retry_id in self._may_be_twice:
            return
        if not (where.state == "dead-lettered" if hop is None else where.is_of(hop)):
            by = "on the line" if hop is None else f"by step {hop.step}"
            step = f" by step {where.step}" if where.step else ""
            text = f"{place} is {retry_id} {by}, which is {where.state}{step} already"
            self._violate(text, where.said, entry)

    def _doubt(self, member: str, covers: Callable[[Place], bool]) -> None:
        """What it had in hand there may have been sent, and be sent again."""
        for place, hop in self._in_hand[member].items():
            if covers(place):
                self._doubtful.add(place)
                known = self._ids.get(place) if hop is None else hop.retry_id
                if known is not None:
                    self._may_be_twice.add(known)

    def _drop_committed(self, entry: Committed) -> None:
        def is_committed(place: Place) -> bool:
            return place[2] < entry.offsets.get(place[:2], 0)

        for in_hand in self._in_hand.values():
            for place in list(filter(is_committed, in_hand)):
                del in_hand[place]
        for place in list(filter(is_committed, self._ids)):
            del self._ids[place]
