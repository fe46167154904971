"""What a consumer reads, in which group, what it may not, and where messages leave its line to."""

import re
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from linear_retry.consumer.settings.retry_topics import RetryTopics
from linear_retry.consumer.settings.scheduler import Scheduler
from linear_retry.consumer.settings.values import check_limit, read_hold_s
from linear_retry.errors import ConfigurationError
from linear_retry.kafka import Message
from linear_retry.kafka.key_check import pattern_refusal
from linear_retry.records.topics.names import (
    DELAY_PATTERN,
    RETRY_SUFFIX,
    is_retry_topic,
    is_topic_name,
    retry_group,
)
from linear_retry.retry.callables import why_not
from linear_retry.retry.decision import OnExhausted

IGNORED = "topic.blacklist"
"""librdkafka's key: patterns of topics that it does not subscribe to, separated by commas."""
_NO_RETRIES = f"retry{DELAY_PATTERN}$"

Topics: TypeAlias = list[str] | tuple[str, ...] | RetryTopics
Retries: TypeAlias = RetryTopics | Scheduler
"""Where messages wait off the line."""
_GROUP, _INSTANCE = "group.id", "group.instance.id"
_FETCH_WAIT_MS = 500
"""Of a retry line, whose messages are in memory long before they are due. At 100, as on a live
line, ten long polls a second of empty topics were half of its CPU time."""


def is_pattern(topic: str) -> bool:
    """Whether librdkafka takes this name as a regular expression: it begins with ^."""
    return topic.startswith("^")


def check_topics(topics: object) -> None:
    """Raises `ConfigurationError` unless these are names and patterns, each given once."""
    if isinstance(topics, str) or not isinstance(topics, Sequence):
        raise ConfigurationError(f"topics={topics!r}: must be a list of names, such as ['orders']")
    if not topics or not all(isinstance(topic, str) and topic for topic in topics):
        raise ConfigurationError(f"topics={topics!r}: must be at least one name, each a str")
    twice = sorted({topic for topic in topics if topics.count(topic) > 1})
    if twice:
        raise ConfigurationError(
            f"topics={list(topics)!r}: {', '.join(twice)} is named twice; name each topic once"
        )
    for topic in topics:
        _check_source(topic)


def _check_source(topic: str) -> None:
    if not is_pattern(topic) and not is_topic_name(topic):
        raise ConfigurationError(
            f"topics: {topic!r} cannot be the name of a topic, which has at most 249 letters, "
            "digits, dots, underscores and hyphens; correct it, or write ^ before a pattern"
        )
    refusal = pattern_refusal(topic) if is_pattern(topic) else None
    if refusal is not None:
        raise ConfigurationError(
            f"topics: {topic!r} is not a pattern that librdkafka accepts ({refusal}); write a "
            "POSIX regular expression"
        )


def subscribed(topics: Sequence[str], existing: Iterable[str], ignored: str = "") -> list[str]:
    """Returns the existing topics that these names and patterns match, and `IGNORED` does not."""
    patterns = [source for source in topics if is_pattern(source)]
    without = [pattern for pattern in ignored.split(",") if pattern]
    return [
        name
        for name in existing
        if name in topics
        or (
            any(_matches(pattern, name) for pattern in patterns)
            and not any(_matches(pattern, name) for pattern in without)
        )
    ]


def refuse_own_topics(topics: Sequence[str], own: Iterable[str], ignored: str = "") -> None:
    """Raises `ConfigurationError` if a source is, or matches, a topic that we write to.

    librdkafka's patterns are POSIX; where Python's differ, the check at assignment catches it.
    """
    for source in topics:
        for name in sorted(subscribed([source], own, ignored)):
            raise ConfigurationError(
                f"the source {source!r} matches {name!r}, to which this consumer writes its dead "
                "letters, retries, journal or answers: it would consume them; choose another name "
                f"or pattern, or exclude it by {IGNORED}"
            )


def refuse_retry_topics(
    topics: Sequence[str], matched: Collection[str], is_own: Callable[[str], bool]
) -> None:
    """Raises `ConfigurationError` if these sources match retry topics, of any group.

    Those of other groups are known by their names only, so one that is named in full is accepted.
    """
    retries = [
        name for name in matched if is_own(name) or (is_retry_topic(name) and name not in topics)
    ]
    if retries:
        raise ConfigurationError(
            f"the sources {', '.join(topics)} match the retry topics {', '.join(sorted(retries))}: "
            "what waits there would be handled at once, as new messages; narrow the pattern, or "
            f"exclude them by {{{IGNORED!r}: {_NO_RETRIES!r}}}"
        )


def _matches(pattern: str, name: str) -> bool:
    with warnings.catch_warnings():
        # POSIX's [[:digit:]] is valid here, but makes Python emit a FutureWarning.
        warnings.simplefilter("ignore", FutureWarning)
        try:
            return re.search(pattern, name) is not None
        except re.error:
            return False


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


WhenExhausted: TypeAlias = OnExhausted | Retries | Recovery


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
