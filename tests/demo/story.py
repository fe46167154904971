"""A consumer that keeps its promises, told as the evidence that it would leave behind."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from linear_retry.demo.evidence import Answer, Evidence, Letter, Receipt, Request
from linear_retry.events import CircuitClosed, CircuitOpened, Event, ProbeFailed
from linear_retry.scope import Place, Scope
from linear_retry.testing.event_log import (
    AttemptFinished,
    AttemptOutcome,
    AttemptStarted,
    Entry,
    EventEmitted,
)

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
    orders: dict[Place, str] = field(default_factory=dict)
    log: list[Entry] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)

    def report(self, line: Line) -> None:
        """One order, from its first attempt until it is done."""
        offset = sum(2 for earlier in self.orders if earlier.partition == line.partition)
        place = Place("orders", line.partition, offset)  # every other offset: gaps happen
        self.orders[place] = line.order_id
        opened_s = self.now_s
        for count, answer in enumerate(line.failures, 1):
            self._fail(place, answer, count)
        self.attempt(place, "rejected" if line.order_id in REJECTED else "paid")
        if line.order_id in REJECTED:
            self.letters.append(Letter(line.order_id, line.partition, offset, "permanent"))
        if line.failures:
            self.note(CircuitClosed(Scope(), "recovered", self.now_s - opened_s))

    def attempt(self, place: Place, answer: Answer, retry_after_s: float = 0.0) -> None:
        """One request, which takes 10 ms."""
        order_id = self.orders[place]
        self.log.append(AttemptStarted(self.now_s + 0.001, "", place))
        self.requests.append(Request(order_id, answer, retry_after_s))
        if answer in _STATUS:
            self.receipts.append(Receipt(self.now_s + 0.003, order_id, _STATUS[answer]))
        self.now_s += 0.011
        outcome: AttemptOutcome = "done" if answer in ("paid", "rejected") else "failed"
        self.log.append(AttemptFinished(self.now_s, "", place, outcome))

    def note(self, event: Event) -> None:
        self.now_s += 0.001
        self.log.append(EventEmitted(self.now_s, "", event))

    def _fail(self, place: Place, answer: Answer, count: int) -> None:
        retry_after_s = 1.0 if answer == "unavailable" else 0.0
        self.attempt(place, answer, retry_after_s)
        ended_s = self.now_s
        delay_s = max(DELAYS_S[count - 1], retry_after_s)
        kind = CircuitOpened if count == 1 else ProbeFailed
        at = datetime(2026, 1, 1, tzinfo=UTC)
        self.note(kind(Scope(), *place, answer, count, delay_s, at))
        self.now_s = ended_s + delay_s

    def evidence(self) -> Evidence:
        return Evidence(
            self.orders,
            self.log,
            self.requests,
            self.receipts,
            self.letters,
            DELAYS_S,
            REJECTED,
        )
