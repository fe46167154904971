"""Kafka's rule for the names of topics."""

import re

from linear_retry.errors import ConfigurationError

_TOPIC_NAME = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")


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
