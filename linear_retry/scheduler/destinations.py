"""The topics that a scheduler may send to."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from linear_retry.errors import ConfigurationError
from linear_retry.records.dead_letter import resolutions_topic
from linear_retry.records.topics.names import is_dead_letter_name

_PATTERN = re.compile(r"[a-zA-Z0-9._*?-]+")


@dataclass(frozen=True, slots=True)
class Destinations:
    """The topics that records may name as their destination.

    `allow` are patterns in which `*` matches any characters, and `?` one. The `intake` topic itself
    would come back for ever, internal topics are Kafka's own, and a dead letter is for people:
    these are refused whatever the patterns are.
    """

    intake: str
    allow: tuple[str, ...]
    dead_letters: str | None = None

    def refusal(self, topic: str) -> str | None:
        """Returns why nothing is sent to `topic`; None: it is allowed."""
        if topic == self.intake:
            return "it is the scheduler's own topic"
        if topic.startswith("__"):
            return "it is an internal topic"
        letters = self.dead_letters
        if is_dead_letter_name(topic) or (letters and topic in _with_resolutions(letters)):
            return "it is a dead-letter topic"
        if not any(fnmatchcase(topic, pattern) for pattern in self.allow):
            return f"--allow has {', '.join(self.allow)}"
        return None


def _with_resolutions(letters: str) -> tuple[str, str]:
    return letters, resolutions_topic(letters)


def check_patterns(allow: Sequence[str]) -> tuple[str, ...]:
    """Returns the patterns. Raises `ConfigurationError` for none, and for what matches no topic."""
    if not allow:
        raise ConfigurationError(
            "--allow is missing: anybody who may write to the scheduler's topic could send to any "
            "topic; name those that are meant, such as --allow 'orders.*'"
        )
    for pattern in allow:
        if _PATTERN.fullmatch(pattern) is None:
            raise ConfigurationError(
                f"--allow {pattern!r}: matches no topic; letters, digits, dots, underscores, "
                "hyphens, * for any characters and ? for one"
            )
    return tuple(allow)
