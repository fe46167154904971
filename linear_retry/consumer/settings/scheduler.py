"""The user's settings for the scheduler, and when it brings a message back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from linear_retry.consumer.settings.values import as_strategy, check_limit, read_hold_s
from linear_retry.records.lineage import Hop
from linear_retry.records.topics.names import check_topic_name
from linear_retry.retry.decision import Left
from linear_retry.strategy.delays import Element
from linear_retry.strategy.strategy import Strategy, check_waits


@dataclass(frozen=True, slots=True, init=False)
class Scheduler:
    """The scheduler's topic: from there a service brings messages back when they are due.

    `on_exhausted=Scheduler("billing.scheduled", strategy=["5m", "1h", "1d"])` sends a message that
    the blocking strategy has not saved to that topic. `linear-retry scheduler run` keeps it in its
    database, and returns it to its original topic and partition after the first delay. There it is
    attempted once, and sent for the next delay if that fails; when `strategy` is exhausted too, the
    message is dead-lettered. After a change of strategy a message continues with the number of its
    next delay. What follows a message that leaves the line is handled without it.

    Other groups of this library pass a returned message over; any other consumer of the source gets
    it again. Delays may have jitter, and `RetryAfter` lengthens them.

    `limit` and `hold` are as in `DeadLetters`: after `limit` messages in a row have left without a
    success, the next one is held instead, and attempted again after each `hold`.
    """

    topic: str
    strategy: Strategy
    limit: int | None
    hold: float | str | None

    discards: ClassVar[bool] = False
    back_to_source: ClassVar[bool] = True
    is_single: ClassVar[bool] = False

    def __init__(
        self,
        topic: str,
        *,
        strategy: Strategy | Sequence[Element],
        limit: int | None = 20,
        hold: float | str | None = None,
    ) -> None:
        """Raises `ConfigurationError`."""
        check_topic_name(topic, "Scheduler")
        delays = as_strategy(strategy)
        check_waits(delays)
        check_limit(limit)
        read_hold_s(hold)
        values: dict[str, Any] = {"topic": topic, "strategy": delays, "limit": limit, "hold": hold}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topic alone, as the carriers with several have them."""
        return (self.topic,)

    @property
    def hold_s(self) -> float | None:
        """`hold` in seconds."""
        return read_hold_s(self.hold)

    def delay_ms(self, topic: str) -> int | None:  # noqa: ARG002  (as `RetryTopics.delay_ms`)
        """None for every topic: no consumer waits for a message in any of them."""
        return None

    def next_hop(
        self, left: Left, at_least_s: float, rng: Callable[[], float] | None = None
    ) -> Hop | None:
        """The next wait of a message that fails now; None: its waits are over."""
        step = 1 if left.hop is None else left.hop.step + 1
        delay_s = self.strategy.delay_s(step, rng)
        if delay_s is None:
            return None
        retry_at_ms = left.now_ms + round(max(delay_s, at_least_s) * 1000)
        if left.is_too_late(retry_at_ms, self.strategy.max_elapsed_s):
            return None
        return Hop(self.topic, step, self.strategy.label, retry_at_ms)
