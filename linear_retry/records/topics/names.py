"""Rules for names: those of Kafka, those of derived and dead-letter topics, and of retry topics."""

import re
from collections.abc import Iterable

from linear_retry.errors import ConfigurationError
from linear_retry.records.durations import delay_text, read_delay_ms

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


DELAY_PATTERN = r"\.[0-9]+(ms|s|m|h|d)"
"""The part after the prefix, as a POSIX regular expression."""


def retry_topic(prefix: str, delay_ms: int) -> str:
    """Returns the topic of `prefix` whose records wait `delay_ms`: `orders.billing.retry.5m`."""
    return f"{prefix}.{delay_text(delay_ms)}"


def delay_of(topic: str, prefix: str | None) -> int | None:
    """Returns the milliseconds that records of `topic` wait; None: not a topic of `prefix`."""
    before, dot, text = topic.rpartition(".")
    return read_delay_ms(text) if before == prefix and dot else None


def is_retry_topic(topic: str) -> bool:
    """Whether it is named as a retry topic of any group: `orders.billing.retry.5m`."""
    before, _, text = topic.rpartition(".")
    return before.endswith("retry") and read_delay_ms(text) is not None


RETRY_SUFFIX = ".retry"


def retry_group(group: str) -> str:
    """Returns the consumer group of the retry line for the live line's group."""
    return f"{group}{RETRY_SUFFIX}"
