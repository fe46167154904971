"""What was observed, and by whom; all times are seconds of one monotonic clock."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from linear_retry.scope import Partition, Place
from linear_retry.testing.event_log import Entry

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
