"""Kafka's rule for topic names, and an optional naming convention."""

import re
from collections.abc import Iterable

from linear_retry.errors import ConfigurationError

_TOPIC_NAME = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
_CONVENTION = re.compile(r"[^.]+(?:\.[^.]+){2,3}")
_DEAD_LETTERS = re.compile(r".*[.-]dlq(\.resolved)?")
CONVENTION = "<namespace>.<product>[.<data-type>].<event-type>"
_CONVENTION_PARTS = 2  # of namespace and product, which stay unchanged


def is_topic_name(topic: object) -> bool:
    """Whether a broker accepts it as the name of a topic."""
    return isinstance(topic, str) and _TOPIC_NAME.fullmatch(topic) is not None


def check_topic_name(topic: object, what: str = "Journal topic") -> None:
    """Raises `ConfigurationError` for an invalid name. `what` describes it in the message."""
    if not is_topic_name(topic):
        raise ConfigurationError(
            f"{what}={topic!r}: the name of a topic, of at most 249 letters, digits, dots, "
            "underscores and hyphens"
        )


def follows_convention(topic: str) -> bool:
    """Whether a topic's name has the parts of `CONVENTION`."""
    return _CONVENTION.fullmatch(topic) is not None


def derived_name(topic: str, *words: str, convention: bool = False) -> str:
    """Derives the name of a topic from `topic`: `orders` and `dlq` make `orders.dlq`.

    With the convention, the words are appended to the last part: `org.orders.created` becomes
    `org.orders.created-dlq`.
    """
    if not convention:
        return ".".join((topic, *words))
    parts = topic.split(".")
    last = "-".join((*parts[_CONVENTION_PARTS:], *words))
    return ".".join((*parts[:_CONVENTION_PARTS], last))


def is_dead_letter_name(topic: str) -> bool:
    """Whether this library names dead-letter topics, and what is recorded about them, like that."""
    return _DEAD_LETTERS.fullmatch(topic) is not None


def colliding(topic: str, others: Iterable[str]) -> list[str]:
    """Returns those of `others` that prevent the creation of `topic`.

    In metric names a dot becomes an underscore, so brokers refuse two topics whose names differ
    only in that.
    """
    alike = topic.replace(".", "_")
    return sorted({name for name in others if name != topic and name.replace(".", "_") == alike})
