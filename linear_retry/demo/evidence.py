"""What was observed, by whom and when; all times are seconds of one monotonic clock."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from linear_retry.testing.event_log import EventEmitted

Answer: TypeAlias = Literal["paid", "rejected", "unavailable", "refused", "broken"]
"""`broken`: the connection was made, and no answer came."""

SETTLED: frozenset[Answer] = frozenset({"paid", "rejected"})
ANSWER_OF_STATUS: dict[int, Answer] = {200: "paid", 422: "rejected", 503: "unavailable"}
ANSWERED = frozenset(ANSWER_OF_STATUS.values())


@dataclass(frozen=True, slots=True)
class Produced:
    """An order, and where the broker acknowledged it."""

    order_id: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request as the HTTP client saw it."""

    order_id: str
    partition: int
    offset: int
    started_s: float
    ended_s: float
    answer: Answer
    retry_after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Receipt:
    """One request as the payment service saw it."""

    at_s: float
    order_id: str
    partition: int
    offset: int
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
    """All that the proof is based on, and what was expected: `delays_s`, `rejected`."""

    topic: str
    produced: tuple[Produced, ...]
    attempts: tuple[Attempt, ...]
    receipts: tuple[Receipt, ...]
    events: tuple[EventEmitted, ...]
    letters: tuple[Letter, ...]
    delays_s: tuple[float, ...]
    rejected: frozenset[str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One promise, the figures about it, and every violation of it."""

    claim: str
    figures: str
    violations: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.violations
