"""What a consumer reads, in which group, and where messages go that leave its line."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from linear_retry.consumer.settings.retry_topics import RetryTopics
from linear_retry.consumer.settings.scheduler import Scheduler
from linear_retry.consumer.settings.topics import check_topics
from linear_retry.consumer.settings.values import check_limit, read_hold_s
from linear_retry.errors import ConfigurationError
from linear_retry.kafka import Message
from linear_retry.records.topics.names import RETRY_SUFFIX, retry_group
from linear_retry.retry.callables import why_not
from linear_retry.retry.decision import OnExhausted


@dataclass(frozen=True, slots=True)
class Recovery:
    """`on_exhausted=Recovery(callback)` hands a message over that retrying has not saved.

    `callback(message, error)` is called with its last error. Once it returns, the message is done;
    if it raises, the circuit opens, and it, not the handler, is called again after 1, 2, 5, 10, 10
    ... seconds. It runs on the thread that owns the consumer, and counts towards
    `max.poll.interval.ms` as a handler does: too slow, it is called again for the message. After a
    crash it may be called again for the same message. Permanent errors go where `on_permanent`
    says.

    `limit` and `hold` are as in `DeadLetters`.
    """

    callback: Callable[[Message, Exception], object]
    limit: int | None = None
    hold: float | str | None = None

    def __post_init__(self) -> None:
        """Checks the values. Raises `ConfigurationError`."""
        refusal = why_not(self.callback, 2)
        if refusal is not None:
            raise ConfigurationError(
                f"Recovery callback={self.callback!r}: not a function of a message and its error "
                f"({refusal}); give a plain function of these two"
            )
        check_limit(self.limit)
        read_hold_s(self.hold)

    @property
    def hold_s(self) -> float | None:
        """`hold` in seconds."""
        return read_hold_s(self.hold)


Topics: TypeAlias = list[str] | tuple[str, ...] | RetryTopics
Retries: TypeAlias = RetryTopics | Scheduler
"""Where messages wait off the line."""
WhenExhausted: TypeAlias = OnExhausted | Retries | Recovery

_GROUP, _INSTANCE = "group.id", "group.instance.id"
_FETCH_WAIT_MS = 500
"""Of a retry line, whose messages are in memory long before they are due. At 100, as on a live
line, ten long polls a second of empty topics were half of its CPU time."""


@dataclass(frozen=True, slots=True)
class LineConfig:
    """`config` and `topics` are the consumer's own; `retries` is where it sends failed messages.

    `on_exhausted` applies after the retry topics or the recovery, or without them.
    """

    config: Mapping[str, Any]
    topics: tuple[str, ...]
    on_exhausted: OnExhausted
    retries: Retries | None
    recovery: Recovery | None
    reads_retries: bool

    def live_group(self, group_id: str) -> str:
        """Returns the group's name in the journal and letters, the same for both lines."""
        return group_id.removesuffix(RETRY_SUFFIX) if self.reads_retries else group_id


def line_config(config: Mapping[str, Any], topics: Topics, when: WhenExhausted) -> LineConfig:
    """Returns the live line of a group, or its retry line. Raises `ConfigurationError`."""
    retries = when if isinstance(when, Retries) else None
    recovery = when if isinstance(when, Recovery) else None
    on_exhausted = "dead-letter" if isinstance(when, Retries | Recovery) else when
    if not isinstance(topics, RetryTopics):
        check_topics(topics)
        return LineConfig(
            config, tuple(topics), on_exhausted, retries, recovery, reads_retries=False
        )
    if on_exhausted != "dead-letter" or recovery or retries not in (None, topics):
        raise ConfigurationError(
            f"on_exhausted={when!r}: a consumer of retry topics sends what fails to the next of "
            "these; leave it out"
        )
    config = _of_retries(config)
    return LineConfig(config, topics.subscription, "dead-letter", topics, None, reads_retries=True)


def _of_retries(config: Mapping[str, Any]) -> dict[str, Any]:
    """A group of its own: in one group, each rebalance of one line would stop the other.

    From the start of each topic: `latest` would skip what was sent before the first start.
    """
    names = {key: retry_group(config[key]) for key in (_GROUP, _INSTANCE) if config.get(key)}
    config = {"fetch.wait.max.ms": _FETCH_WAIT_MS, **config}
    return {**config, **names, "auto.offset.reset": "earliest"}
