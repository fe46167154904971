"""The record of a run, filled by the consumer's thread and read by the display's."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from linear_retry.demo.evidence import Answer, Request
from linear_retry.events import DeadLettered
from linear_retry.scope import Place
from linear_retry.testing.event_log import AttemptFinished, EventEmitted, EventLog


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
    paid: int
    dead_lettered: int
    total: int
    answers: Counter[Answer]


class Record:
    """The log of the one consumer, and the requests of its attempts, in their order."""

    def __init__(
        self, orders: Mapping[Place, str], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.orders = orders
        self.log = EventLog(clock)
        self.requests: list[Request] = []
        self.started_s = clock()

    def events(self, since: int = 0) -> list[EventEmitted]:
        """All events, or those after the first `since`."""
        return [entry for entry in self.log.entries if isinstance(entry, EventEmitted)][since:]

    def progress(self) -> Progress:
        paid: Counter[int] = Counter()
        dead: Counter[int] = Counter()
        for entry in self.log.entries:
            match entry:
                case AttemptFinished(place=place, outcome="done"):
                    paid[place.partition] += 1
                case EventEmitted(event=DeadLettered(partition=partition)):
                    dead[partition] += 1
        totals = Counter(place.partition for place in self.orders)
        return Progress(
            self.log.now_s() - self.started_s,
            tuple(
                PartitionProgress(number, paid[number], dead[number], total)
                for number, total in sorted(totals.items())
            ),
            paid.total(),
            dead.total(),
            totals.total(),
            Counter(request.answer for request in self.requests),
        )
