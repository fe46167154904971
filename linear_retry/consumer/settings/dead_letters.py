"""The user's settings for dead letters."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from linear_retry.consumer.settings.values import check_limit, read_hold_s
from linear_retry.errors import ConfigurationError
from linear_retry.records.dead_letter import resolutions_topic
from linear_retry.records.topics.names import check_topic_name

Oversized: TypeAlias = Literal["hold", "reference"]


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The topic that failed messages are sent to, and how.

    `config` holds librdkafka's keys for the producer; for brokers and security the consumer's own
    apply unless set here (other brokers only without `RetryTopics` and `transactional`).
    `oversized` says what happens to a letter that exceeds the topic's limit even without the
    exception's texts: `"hold"` keeps the circuit open until someone raises the topic's
    `max.message.bytes`, `"reference"` sends origin, size, SHA-256 and the first KiB instead.
    `transactional` sends the letter and commits its source offset in one Kafka transaction: readers
    with `isolation.level=read_committed` (the default) then find each letter once, also after
    crashes and rebalances. `limit`, a whole number from 1: after that many letters in a row without
    a success, the next message is held instead, and attempted again after each `hold` until
    something succeeds. None: no limit. `hold` is seconds, or a duration such as `"5m"`, above 0 and
    up to 7 days. None: the strategy's last delay, at most its `max_elapsed`, and at least 30 s.
    """

    topic: str
    config: Mapping[str, Any] = field(default_factory=dict)
    oversized: Oversized = "hold"
    transactional: bool = False
    limit: int | None = 20
    hold: float | str | None = None

    def __post_init__(self) -> None:
        """Checks the values. Raises `ConfigurationError`."""
        check_topic_name(self.topic, "dead_letters")
        check_topic_name(resolutions_topic(self.topic), "dead_letters, the topic of resolutions")
        if not isinstance(self.config, Mapping):
            raise ConfigurationError(
                f"DeadLetters config={self.config!r}: must be a mapping of librdkafka's keys, "
                'such as {"compression.type": "zstd"}'
            )
        if self.oversized not in ("hold", "reference"):
            raise ConfigurationError(f'oversized={self.oversized!r}: must be "hold" or "reference"')
        if not isinstance(self.transactional, bool):
            raise ConfigurationError(f"transactional={self.transactional!r}: must be True or False")
        check_limit(self.limit)
        read_hold_s(self.hold)

    @property
    def hold_s(self) -> float | None:
        """`hold` in seconds."""
        return read_hold_s(self.hold)
