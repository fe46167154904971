"""What a consumer reads, in which group, and where messages go that leave its line."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from linear_retry.consumer.settings.recovery import Recovery
from linear_retry.consumer.settings.retry_topics import RetryTopics
from linear_retry.consumer.settings.scheduler import Scheduler
from linear_retry.consumer.settings.topics import check_topics
from linear_retry.errors import ConfigurationError
from linear_retry.records.topics.names import RETRY_SUFFIX, retry_group
from linear_retry.retry.decision import OnExhausted

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
