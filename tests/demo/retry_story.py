"""Two lines that keep their promises, told as the evidence that they would leave behind."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from linear_retry import events as e
from linear_retry.demo.evidence import Receipt
from linear_retry.demo.off_the_line.proof import Evidence
from linear_retry.demo.off_the_line.story import SEQUENCE, retries_of
from linear_retry.demo.payments import REJECTED
from linear_retry.records.dead_letter import DeadLetter
from linear_retry.records.topics.retry_topics import read_delay_ms
from linear_retry.scope import Place
from linear_retry.testing.event_log import (
    Appended,
    AttemptFinished,
    AttemptStarted,
    Entry,
    EventEmitted,
)
from linear_retry.testing.retry_hop import RetryHop

RETRIES = retries_of("orders")
DELAYS_S = [(read_delay_ms(delay) or 0) / 1000 for delay in SEQUENCE]
FOREVER = len(SEQUENCE) + 1
_AT = datetime(2026, 1, 1, tzinfo=UTC)
_LATE_S = 0.05


@dataclass(slots=True)
class RetryStory:
    """One order after another on the line; each retry at its time, on the retry line."""

    orders: dict[Place, str] = field(default_factory=dict)
    log: list[Entry] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    letters: list[DeadLetter] = field(default_factory=list)

    def tell(self, failures: Mapping[str, int]) -> Evidence:
        """`failures`: how often each order fails before it is paid; those rejected fail once."""
        for number, (order_id, times) in enumerate(failures.items()):
            place = Place("orders", 0, number)
            self.orders[place] = order_id
            self._follow(place, order_id, times, 100 + number * 0.1)
        self.log += [Appended(99.0, "", place) for place in self.orders]
        self.log.append(EventEmitted(99.1, "live", e.Assigned((("orders", 0),))))
        self.log.sort(key=lambda entry: entry.at_s)
        self.receipts.sort(key=lambda receipt: receipt.at_s)
        return Evidence(self.orders, self.log, self.receipts, self.letters, RETRIES)

    def _follow(self, origin: Place, order_id: str, times: int, at_s: float) -> None:
        """From its attempt on the line to its end."""
        place, member, hop = origin, "live", None
        for failed in range(times):
            self._attempt(place, member, hop, at_s, order_id, 503)
            step = failed + 1
            if step > len(SEQUENCE):
                self._bury(place, member, at_s + 0.03, origin, order_id, "exhausted", step)
                return
            topic = f"orders.retry.{SEQUENCE[failed]}"
            sent = e.SentToRetry(*place, topic, order_id, 1, step, _AT, "503", step)
            self.log.append(EventEmitted(at_s + 0.03, member, sent))
            at_s += 0.03 + DELAYS_S[failed] + _LATE_S
            member, place = "retry", Place(topic, 0, 10 * origin.offset + step)
            hop = RetryHop(order_id, 1, 0, step, step, DELAYS_S[failed] + _LATE_S)
        rejected = order_id in REJECTED
        self._attempt(place, member, hop, at_s, order_id, 422 if rejected else 200)
        if rejected:
            self._bury(place, member, at_s + 0.03, origin, order_id, "permanent", 1)

    def _attempt(
        self,
        place: Place,
        member: str,
        hop: RetryHop | None,
        at_s: float,
        order_id: str,
        status: int,
    ) -> None:
        outcome = AttemptFinished(at_s + 0.02, member, place, "done" if status == 200 else "failed")
        self.log += [AttemptStarted(at_s, member, place, hop), outcome]
        self.receipts.append(Receipt(at_s + 0.001, order_id, status))

    def _bury(
        self,
        place: Place,
        member: str,
        at_s: float,
        origin: Place,
        order_id: str,
        reason: str,
        failures: int,
    ) -> None:
        dead = e.DeadLettered(*place, "orders.dlq", order_id, 1, reason, "503", failures, ())
        self.log.append(EventEmitted(at_s, member, dead))
        step = failures - 1 or None
        self.letters.append(
            DeadLetter(
                None,
                order_id.encode(),
                (),
                order_id,
                1,
                *origin,
                0,
                "g",
                reason,
                failures,
                0,
                0,
                "s@1",
                step,
            )
        )
