"""What was observed, by whom, and the record of a run; in seconds of a monotonic clock."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from linear_retry.events import DeadLettered
from linear_retry.scope import Partition, Place
from linear_retry.testing.event_log import AttemptFinished, Entry, EventEmitted, EventLog

Answer: TypeAlias = Literal["paid", "rejected", "unavailable", "refused", "broken"]
"""`broken`: the connection was made, and no answer came."""

ANSWER_OF_STATUS: dict[int, Answer] = {200: "paid", 422: "rejected", 503: "unavailable"}


@dataclass(frozen=True, slots=True)
class Request:
    """One request as the HTTP client saw it."""

    order_id: str
    answer: Answer
    retry_after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Receipt:
    """One request as the payment service saw it."""

    at_s: float
    order_id: str
    status: int


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter, read back from its topic."""

    order_id: str
    partition: int
    offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that the proof is based on, and what was expected: `delays_s`, `rejected`.

    `orders` are where the broker acknowledged them; each attempt in the `log` made one request.
    """

    orders: Mapping[Place, str]
    log: Sequence[Entry]
    requests: Sequence[Request]
    receipts: Sequence[Receipt]
    letters: Sequence[Letter]
    delays_s: Sequence[float]
    rejected: frozenset[str]


def offsets_of(places: Iterable[Place]) -> dict[Partition, list[int]]:
    """The offsets of each partition."""
    found: defaultdict[Partition, list[int]] = defaultdict(list)
    for place in places:
        found[place[:2]].append(place.offset)
    return found


@dataclass(frozen=True, slots=True)
class Verdict:
    """One promise, the figures about it, and every violation of it."""

    claim: str
    figures: str
    violations: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.violations


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
