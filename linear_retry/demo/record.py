"""The record of a run, filled by the consumer's thread and read by the display's."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from linear_retry.demo.evidence import Answer, Attempt, Produced
from linear_retry.events import DeadLettered, Event
from linear_retry.testing.event_log import EventEmitted


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """The progress of one partition."""

    partition: int
    paid: int
    dead_lettered: int
    total: int


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of all partitions, `elapsed_s` after the start."""

    elapsed_s: float
    partitions: tuple[PartitionProgress, ...]
    answers: Counter[Answer]

    @property
    def paid(self) -> int:
        return sum(partition.paid for partition in self.partitions)

    @property
    def dead_lettered(self) -> int:
        return sum(partition.dead_lettered for partition in self.partitions)

    @property
    def total(self) -> int:
        return sum(partition.total for partition in self.partitions)


class Record:
    """Records attempts and events; calls `when_settled` once nothing is left to do.

    An order is settled when it is paid, or when the dead-letter topic has acknowledged it.
    """

    def __init__(
        self, produced: tuple[Produced, ...], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.when_settled: Callable[[], object] = lambda: None
        self._clock = clock
        self.started_s = clock()
        self._totals = Counter(order.partition for order in produced)
        self._unsettled = {(order.partition, order.offset) for order in produced}
        self._lock = Lock()
        self._attempts: list[Attempt] = []
        self._events: list[EventEmitted] = []
        self._paid: Counter[int] = Counter()
        self._dead: Counter[int] = Counter()

    def on_attempt(self, attempt: Attempt) -> None:
        """Records an attempt of the HTTP client."""
        with self._lock:
            self._attempts.append(attempt)
        if attempt.answer == "paid":
            self._settle(self._paid, attempt.partition, attempt.offset)

    def on_event(self, event: Event) -> None:
        """Records an event: the consumer's listener."""
        with self._lock:
            self._events.append(EventEmitted(self._clock(), "", event))
        if isinstance(event, DeadLettered):
            self._settle(self._dead, event.partition, event.offset)

    def attempts(self) -> tuple[Attempt, ...]:
        with self._lock:
            return tuple(self._attempts)

    def events(self, since: int = 0) -> tuple[EventEmitted, ...]:
        """All events, or those after the first `since`."""
        with self._lock:
            return tuple(self._events[since:])

    def progress(self) -> Progress:
        with self._lock:
            return Progress(
                self._clock() - self.started_s,
                tuple(
                    PartitionProgress(number, self._paid[number], self._dead[number], total)
                    for number, total in sorted(self._totals.items())
                ),
                Counter(attempt.answer for attempt in self._attempts),
            )

    def _settle(self, counts: Counter[int], partition: int, offset: int) -> None:
        with self._lock:
            if (partition, offset) not in self._unsettled:
                return
            self._unsettled.remove((partition, offset))
            counts[partition] += 1
            is_last = not self._unsettled
        if is_last:
            self.when_settled()
