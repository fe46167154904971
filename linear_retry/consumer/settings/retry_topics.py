"""The user's settings for retry topics, and where a message goes next in them."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from linear_retry.consumer.settings.values import as_strategy, check_limit, read_hold_s
from linear_retry.errors import ConfigurationError
from linear_retry.records.lineage import Hop
from linear_retry.records.topics.names import DELAY_PATTERN, check_topic_name, delay_of, retry_topic
from linear_retry.retry.decision import Left
from linear_retry.strategy.delays import Element
from linear_retry.strategy.strategy import Strategy, check_retry_delays

OnExpired: TypeAlias = Literal["dead-letter", "discard"]


@dataclass(frozen=True, slots=True, init=False)
class RetryTopics:
    """Retry topics: where messages wait for their next attempt, off the line and out of order.

    `on_exhausted=RetryTopics("orders.billing.retry", strategy=["5m", "5m", "30m"])` sends a message
    that the blocking strategy has not saved to `orders.billing.retry.5m`: one topic for each
    distinct delay, so that each is sorted by due time. `LinearConsumer(config, retries, ...)` reads
    them, in the group `<group.id>.retry`, each message when its delay is over. When `strategy` is
    exhausted too, the message is dead-lettered. A message that leaves the line loses its place:
    what follows it in its partition is handled without it.

    `back_to_source=True`: the retry line calls no handler. It returns each message to its original
    topic and partition, in one transaction with its offset (so `DeadLetters(transactional=True)` is
    needed): there it is attempted once, and goes to the next step if that fails. Other groups of
    this library pass it over; any other consumer of the source gets it again.

    `limit` and `hold` are as in `DeadLetters`: after `limit` messages in a row have left without a
    success, the next one is held instead, and attempted again after each `hold`.
    """

    prefix: str
    strategy: Strategy
    limit: int | None
    hold: float | str | None
    back_to_source: bool
    on_expired: OnExpired
    is_single: bool
    """Whether there is one topic, named `prefix`, for all steps."""

    def __init__(
        self,
        prefix: str,
        *,
        strategy: Strategy | Sequence[Element],
        limit: int | None = 20,
        hold: float | str | None = None,
        back_to_source: bool = False,
    ) -> None:
        """Raises `ConfigurationError`."""
        delays = as_strategy(strategy)
        self._set(
            prefix=prefix,
            strategy=delays,
            limit=limit,
            hold=hold,
            back_to_source=back_to_source,
            on_expired="dead-letter",
            is_single=False,
        )
        for topic in self.topics:
            check_topic_name(topic, "RetryTopics")

    @classmethod
    def single(
        cls,
        topic: str,
        *,
        every: float | str,
        max_duration: float | str,
        on_expired: OnExpired = "dead-letter",
        limit: int | None = 20,
        hold: float | str | None = None,
        back_to_source: bool = False,
    ) -> "RetryTopics":
        """One topic, named `topic`: each message is attempted again `every` so long.

        Until `max_duration` after its first failure: then it is dead-lettered, or discarded. Both
        are seconds, or durations such as `"5m"`. Its records also have
        `original-received-timestamp` and `original-received-topic`. Raises `ConfigurationError`.
        """
        if on_expired not in ("dead-letter", "discard"):
            raise ConfigurationError(
                f'on_expired={on_expired!r}: must be "dead-letter" or "discard"'
            )
        check_topic_name(topic, "RetryTopics.single")
        made = cls.__new__(cls)
        made._set(
            prefix=topic,
            strategy=Strategy([every], max_elapsed=max_duration),
            limit=limit,
            hold=hold,
            back_to_source=back_to_source,
            on_expired=on_expired,
            is_single=True,
        )
        return made

    def _set(self, **values: Any) -> None:
        check_limit(values["limit"])
        read_hold_s(values["hold"])
        check_retry_delays(values["strategy"])
        if not isinstance(values["back_to_source"], bool):
            given = values["back_to_source"]
            raise ConfigurationError(f"back_to_source={given!r}: must be True or False")
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are needed, the shortest delay first."""
        if self.is_single:
            return (self.prefix,)
        return tuple(retry_topic(self.prefix, each) for each in self.strategy.distinct_delays_ms)

    @property
    def subscription(self) -> tuple[str, ...]:
        """What a consumer of them subscribes to: delays that the strategy has no longer, too."""
        if self.is_single:
            return self.topics
        return (*self.topics, f"^{re.escape(self.prefix)}{DELAY_PATTERN}$")

    @property
    def hold_s(self) -> float | None:
        """`hold` in seconds."""
        return read_hold_s(self.hold)

    @property
    def discards(self) -> bool:
        """Whether a message whose waits are over is skipped for good, and not dead-lettered."""
        return self.on_expired == "discard"

    def delay_ms(self, topic: str) -> int | None:
        """The milliseconds that records of `topic` wait; None: not one of these retry topics.

        Topics of delays that the strategy has no longer are among them: records may wait there.
        """
        if self.is_single:
            return self.strategy.delays_ms[0] if topic == self.prefix else None
        return delay_of(topic, self.prefix)

    def next_hop(
        self,
        left: Left,
        at_least_s: float,
        rng: Callable[[], float] | None = None,  # noqa: ARG002  (retry topics have no jitter)
    ) -> Hop | None:
        """The next wait of a message that fails now; None: its waits are over.

        Where the handler asked for more than the step's delay (`RetryAfter`), it goes to the
        shortest topic that covers that, else to the longest one; no step is skipped.
        """
        step = self._step_after(left.hop)
        if step is None:
            return None
        delays_ms = self.strategy.delays_ms
        wanted_ms = max(delays_ms[min(step, len(delays_ms)) - 1], round(at_least_s * 1000))
        covering = [each for each in self.strategy.distinct_delays_ms if each >= wanted_ms]
        delay_ms = min(covering, default=max(delays_ms))
        retry_at_ms = left.now_ms + delay_ms
        if left.is_too_late(retry_at_ms, self.strategy.max_elapsed_s):
            return None
        topic = self.prefix if self.is_single else retry_topic(self.prefix, delay_ms)
        label, short_ms = self.strategy.label, max(wanted_ms - delay_ms, 0)
        return Hop(topic, step, label, retry_at_ms, is_marked=self.is_single, short_ms=short_ms)

    def _step_after(self, hop: Hop | None) -> int | None:
        """None: that was the last. After a change of strategy: the first that is longer.

        Or as long, and later; and so are all steps behind it. While members with the old and the
        new strategy are running, they would else pass a message on to each other for ever, between
        equal delays, or where the delays of one fall.
        """
        if hop is None:
            return 1
        if self.is_single:
            return hop.step + 1
        delays_ms = self.strategy.delays_ms
        steps = range(1, len(delays_ms) + 1)
        if hop.strategy == self.strategy.label and hop.step in steps:
            return hop.step + 1 if hop.step + 1 in steps else None
        waited = self.delay_ms(hop.topic) or 0, hop.step
        ahead = list(zip(delays_ms, steps, strict=True))
        return next((step for step in steps if min(ahead[step - 1 :]) > waited), None)
