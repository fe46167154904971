"""Counts what a consumer has done, and knows what its handler has now."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

from linear_retry import events
from linear_retry.kafka import Message
from linear_retry.scope import Partition

HANDLED_WITHIN_S = (0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, float("inf"))


class Happened(NamedTuple):
    """A kind of event, and where. `reason` is the event's reason or outcome; "" where it has none.

    `topic` and `partition` are None for what is of no single partition.
    """

    event: str
    topic: str | None = None
    partition: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Counts:
    """What one consumer has done since it was made.

    A batch is what the handler was given between two polls: `handled_within` says how many were
    back within each time of `HANDLED_WITHIN_S` and not within the one before, `handling_s` is the
    seconds of all. `waits` counts, and `waited_s` adds up, the delays of each partition, as they
    begin.
    """

    succeeded: int
    failed: int
    handling_s: float
    handled_within: tuple[int, ...]
    events: Mapping[Happened, int]
    waits: Mapping[Partition, int]
    waited_s: Mapping[Partition, float]


class Counters:
    """Counts as the loop goes on; any thread may look.

    A message costs nothing: its batch is counted when it is back; `handed_out` is when it was
    given, and its first message. Nothing in here knows a key or
    an offset, so its size is bounded by partitions and kinds of events.
    """

    def __init__(self) -> None:
        self.succeeded = 0
        self.failed = 0
        self.handed_out: tuple[float, Message] | None = None
        self._handling_s = 0.0
        self._within = [0] * len(HANDLED_WITHIN_S)
        self._events: dict[Happened, int] = {}
        self._waits: dict[Partition, int] = {}
        self._waited_s: dict[Partition, float] = {}
        self._last_wait: tuple[Partition, datetime] | None = None

    def end_batch(self, now_s: float) -> None:
        """What was `handed_out` is the loop's again."""
        if self.handed_out is not None:
            took_s = now_s - self.handed_out[0]
            self.handed_out = None
            self._handling_s += took_s
            self._within[bisect_left(HANDLED_WITHIN_S, took_s)] += 1

    def on_event(self, event: events.Event) -> None:
        """A listener."""
        place = getattr(event, "topic", None), getattr(event, "partition", None)
        happened = Happened(type(event).__name__, *place, _reason(event))
        self._events[happened] = self._events.get(happened, 0) + 1
        match event:
            case (
                events.CircuitOpened()
                | events.ProbeFailed()
                | events.DeadLetterFailed()
                | events.LimitReached()
            ):
                self._wait((event.topic, event.partition), event.delay_s, event.retry_at)

    def counts(self) -> Counts:
        """As it is now. Copies, each made in one step: the loop goes on meanwhile."""
        return Counts(
            self.succeeded,
            self.failed,
            self._handling_s,
            tuple(self._within),
            MappingProxyType(self._events.copy()),
            MappingProxyType(self._waits.copy()),
            MappingProxyType(self._waited_s.copy()),
        )

    def _wait(self, partition: Partition, delay_s: float, retry_at: datetime) -> None:
        # Where a letter fails, or is held back, and that opens the circuit, two events tell of one.
        if self._last_wait != (partition, retry_at):
            self._last_wait = partition, retry_at
            self._waits[partition] = self._waits.get(partition, 0) + 1
            self._waited_s[partition] = self._waited_s.get(partition, 0.0) + delay_s


def _reason(event: events.Event) -> str:
    """One of few: what some events call a reason is a text, with an error in it."""
    match event:
        case events.DeadLettered():
            return event.reason
        case events.CircuitClosed():
            return event.outcome
        case events.ClientError():
            return event.code
        case _:
            return ""
