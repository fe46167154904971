"""A consumer that keeps its promises, told as the evidence that it would leave behind."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from linear_retry.demo.evidence import (
    Answer,
    Attempt,
    Evidence,
    Letter,
    Produced,
    Receipt,
)
from linear_retry.events import CircuitClosed, CircuitOpened, Event, ProbeFailed
from linear_retry.scope import Scope
from linear_retry.testing.event_log import EventEmitted

DELAYS_S = (0.5, 1.0, 2.0, 2.0, 2.0)
REJECTED = frozenset({"rejected-1", "rejected-2"})
_STATUS: dict[Answer, int] = {"paid": 200, "rejected": 422, "unavailable": 503}


@dataclass(frozen=True, slots=True)
class Line:
    """One order of the story: how it fails first, and what becomes of it."""

    order_id: str
    partition: int
    failures: tuple[Answer, ...] = ()


@dataclass(slots=True)
class Story:
    """Time goes by as lines are told."""

    now_s: float = 100.0
    produced: list[Produced] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    events: list[EventEmitted] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)

    def tell(self, line: Line) -> None:
        """One order, from its first attempt until it is done."""
        offset = sum(2 for earlier in self.produced if earlier.partition == line.partition)
        order = Produced(line.order_id, line.partition, offset)  # every other offset: gaps happen
        self.produced.append(order)
        opened_s = self.now_s
        for count, answer in enumerate(line.failures, 1):
            self._fail(order, answer, count)
        self.attempt(order, "rejected" if line.order_id in REJECTED else "paid")
        if line.order_id in REJECTED:
            self.letters.append(Letter(order.order_id, order.partition, offset, "permanent"))
        if line.failures:
            self.note(CircuitClosed(Scope(), "recovered", self.now_s - opened_s))

    def attempt(self, order: Produced, answer: Answer, retry_after_s: float = 0.0) -> None:
        """One request, which takes 10 ms."""
        self.now_s += 0.001
        started_s, self.now_s = self.now_s, self.now_s + 0.01
        where = (order.order_id, order.partition, order.offset)
        self.attempts.append(Attempt(*where, started_s, self.now_s, answer, retry_after_s))
        if answer in _STATUS:
            self.receipts.append(Receipt(started_s + 0.002, *where, _STATUS[answer]))

    def note(self, event: Event) -> None:
        self.now_s += 0.001
        self.events.append(EventEmitted(self.now_s, "", event))

    def _fail(self, order: Produced, answer: Answer, count: int) -> None:
        retry_after_s = 1.0 if answer == "unavailable" else 0.0
        self.attempt(order, answer, retry_after_s)
        ended_s = self.now_s
        delay_s = max(DELAYS_S[count - 1], retry_after_s)
        kind = CircuitOpened if count == 1 else ProbeFailed
        at = datetime(2026, 1, 1, tzinfo=UTC)
        place = ("orders", order.partition, order.offset)
        self.note(kind(Scope(), *place, answer, count, delay_s, at))
        self.now_s = ended_s + delay_s

    def evidence(self) -> Evidence:
        return Evidence(
            "orders",
            tuple(self.produced),
            tuple(self.attempts),
            tuple(self.receipts),
            tuple(self.events),
            tuple(self.letters),
            DELAYS_S,
            REJECTED,
        )
