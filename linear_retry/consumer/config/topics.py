"""Rejects sources that cannot be subscribed to, or that this consumer itself writes to."""

import re
import warnings
from collections.abc import Sequence

from linear_retry.errors import ConfigurationError
from linear_retry.kafka.key_check import pattern_refusal
from linear_retry.records.topics.names import is_topic_name


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


def refuse_own_topics(topics: Sequence[str], own: Sequence[str]) -> None:
    """Raises `ConfigurationError` if a source is, or matches, a topic that we write to.

    librdkafka's patterns are POSIX; where Python's differ, the check at assignment catches it.
    """
    for source in topics:
        for name in own:
            if source == name or (is_pattern(source) and _matches(source, name)):
                raise ConfigurationError(
                    f"the source {source!r} matches {name!r}, to which this consumer writes its "
                    "dead letters, retries, journal or answers: it would consume them; choose "
                    "another name or pattern"
                )


def _matches(pattern: str, name: str) -> bool:
    with warnings.catch_warnings():
        # POSIX's [[:digit:]] is valid here, but makes Python emit a FutureWarning.
        warnings.simplefilter("ignore", FutureWarning)
        try:
            return re.search(pattern, name) is not None
        except re.error:
            return False
