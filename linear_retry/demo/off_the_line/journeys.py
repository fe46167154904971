"""Where the orders are that have left the line, from the log of both lines."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from linear_retry.events import DeadLettered, SentToRetry
from linear_retry.scope import Place
from linear_retry.testing.event_log import AttemptFinished, AttemptStarted, Entry, EventEmitted


@dataclass(frozen=True, slots=True)
class Waiting:
    """An order that is out; `passed` orders had been handled on the line when it left."""

    order_id: str
    step: int
    due_s: float
    passed: int


@dataclass(frozen=True, slots=True)
class Ended:
    """An order whose retries are over, and how many others were handled on the line meanwhile."""

    order_id: str
    at_s: float
    step: int
    is_paid: bool
    overtaken_by: int

    def __str__(self) -> str:
        end = "paid by" if self.is_paid else "dead letter after"
        return f"{self.order_id}  {end} retry #{self.step}, overtaken by {self.overtaken_by}"


@dataclass(slots=True)
class Journeys:
    """`waiting` by `retry-id`; `ended` in the order in which they came back."""

    on_line: int = 0
    waiting: dict[str, Waiting] = field(default_factory=dict)
    ended: list[Ended] = field(default_factory=list)

    def end(self, retry_id: str, at_s: float, *, is_paid: bool) -> None:
        """One that waits no longer. No other order ends here: it has never left the line."""
        left = self.waiting.pop(retry_id, None)
        if left is not None:
            passed = self.on_line - left.passed
            self.ended.append(Ended(left.order_id, at_s, left.step, is_paid, passed))


def journeys(
    entries: Iterable[Entry], orders: Mapping[Place, str], delays_ms: Sequence[int]
) -> Journeys:
    """Follows each order by its `retry-id`; `delays_ms` are those of the steps."""
    found = Journeys()
    ids: dict[Place, str] = {}
    for entry in entries:
        match entry:
            case AttemptStarted(place=place, hop=hop) if hop is not None:
                ids[place] = hop.retry_id
            case AttemptFinished(at_s, _, place, "done"):
                if place in ids:
                    found.end(ids[place], at_s, is_paid=True)
                else:
                    found.on_line += 1
            case EventEmitted(at_s, _, SentToRetry() as event):
                due_s = at_s + delays_ms[min(event.step, len(delays_ms)) - 1] / 1000
                before = found.waiting.get(event.retry_id)
                order_id = orders[event.place] if before is None else before.order_id
                passed = found.on_line if before is None else before.passed
                waiting = Waiting(order_id, event.step, due_s, passed)
                found.waiting[event.retry_id] = waiting
            case EventEmitted(at_s, _, DeadLettered(retry_id=retry_id)):
                found.end(retry_id, at_s, is_paid=False)
    return found
