"""The topics that nothing is sent to from the console."""

from collections.abc import Callable, Iterable

from linear_retry.console.state.settings import Settings
from linear_retry.errors import LinearRetryError
from linear_retry.records import control
from linear_retry.records.topics.names import is_dead_letter_name


class TargetError(LinearRetryError):
    """Nothing may be sent to this topic."""


class Targets:
    """Checks where letters and their edited copies go to.

    A letter names its topic itself, and anybody who writes to a dead-letter topic could have it
    sent to the control topic as an order, or have other letters look resolved. Which other topics
    may be written to is for the ACLs of the console's user.
    """

    def __init__(self, settings: Settings, is_indexed: Callable[[str], bool]) -> None:
        """`is_indexed` says of a topic whether the console shows it as dead letters."""
        self._control = {control.DEFAULT_TOPIC, settings.control}
        self._journal = settings.journal
        self._is_indexed = is_indexed

    def check(self, topics: Iterable[str]) -> None:
        """Raises `TargetError` for the first of them that may not be sent to."""
        for topic in topics:
            if (reason := self._refusal(topic)) is not None:
                raise TargetError(f"{topic}: nothing is sent there, since it is {reason}")

    def _refusal(self, topic: str) -> str | None:
        if topic.startswith("__"):
            return "an internal topic of Kafka"
        if topic in self._control:
            return "the topic of operators' commands"
        if topic == self._journal:
            return "the journal"
        if is_dead_letter_name(topic) or self._is_indexed(topic.removesuffix(".resolved")):
            return "a topic of dead letters or of their resolutions"
        return None
