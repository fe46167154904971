"""Kafka's rule for the names of topics, and the convention that teams may add to it."""

import re
from collections.abc import Iterable

from linear_retry.errors import ConfigurationError

_TOPIC_NAME = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
_CONVENTION = re.compile(r"[^.]+(?:\.[^.]+){2,3}")
CONVENTION = "<namespace>.<product>[.<data-type>].<event-type>"
_CONVENTION_PARTS = 2  # of namespace and product, which stay as they are


def is_topic_name(topic: object) -> bool:
    """Whether a broker takes it for the name of a topic."""
    return isinstance(topic, str) and _TOPIC_NAME.fullmatch(topic) is not None


def check_topic_name(topic: object, what: str = "Journal topic") -> None:
    """Raises `ConfigurationError`. `what` is how the caller names it."""
    if not is_topic_name(topic):
        raise ConfigurationError(
            f"{what}={topic!r}: the name of a topic, of at most 249 letters, digits, dots, "
            "underscores and hyphens"
        )


def follows_convention(topic: str) -> bool:
    """Whether a topic's name has the parts of `CONVENTION`."""
    return _CONVENTION.fullmatch(topic) is not None


def derived_name(topic: str, *words: str, convention: bool = False) -> str:
    """The name of a topic that goes with `topic`: `orders`, `dlq` make `orders.dlq`.

    By the convention the words become part of the last name: of `org.orders.created`,
    `org.orders.created-dlq` is made.
    """
    if not convention:
        return ".".join((topic, *words))
    parts = topic.split(".")
    last = "-".join((*parts[_CONVENTION_PARTS:], *words))
    return ".".join((*parts[:_CONVENTION_PARTS], last))


def colliding(topic: str, others: Iterable[str]) -> list[str]:
    """Those of `others` beside which brokers do not create `topic`.

    In the names of metrics a dot is an underscore, so brokers refuse a topic whose name differs
    from that of another one in nothing else.
    """
    alike = topic.replace(".", "_")
    return sorted({name for name in others if name != topic and name.replace(".", "_") == alike})
