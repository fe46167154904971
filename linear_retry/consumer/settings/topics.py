"""Rejects sources that cannot be subscribed to, or whose messages are not for the handler."""

import re
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence

from linear_retry.errors import ConfigurationError
from linear_retry.kafka.key_check import pattern_refusal
from linear_retry.records.topics.names import DELAY_PATTERN, is_retry_topic, is_topic_name

IGNORED = "topic.blacklist"
"""librdkafka's key: patterns of topics that it does not subscribe to, separated by commas."""
_NO_RETRIES = f"retry{DELAY_PATTERN}$"


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
