"""The two lines of a group, and whether they belong together."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, TypeAlias

from linear_retry.consumer.linear_consumer import LinearConsumer
from linear_retry.consumer.settings.retry_topics import RetryTopics
from linear_retry.errors import ConfigurationError

RetryLine: TypeAlias = Callable[[], LinearConsumer]
"""A function that creates the retry line where it will run."""


@dataclass(frozen=True, slots=True)
class LiveLine:
    """What the retry line has to agree with. `sends_to` is the prefix of the retry topics."""

    group_id: str
    sends_to: str | None

    @classmethod
    def of(cls, live: LinearConsumer) -> Self:
        """Raises `ConfigurationError` if it is a retry line."""
        config = live._config
        if config.reads_retries:
            raise _order_error()
        return cls(config.line.group_id, _prefix(live))

    def retry_line(self, create: RetryLine) -> LinearConsumer:
        """Creates it. Raises `ConfigurationError` unless it is the retry line of the same group."""
        retry = create()
        if not isinstance(retry, LinearConsumer) or not retry._config.reads_retries:
            raise _order_error()
        config = retry._config
        if config.line.group_id != self.group_id:
            raise ConfigurationError(
                f"run_together: the live line is of group {self.group_id!r}, the retry line of "
                f"{config.line.group_id!r}; give both the same group.id"
            )
        reads = _prefix(retry)
        if self.sends_to is not None and self.sends_to != reads:
            raise ConfigurationError(
                f"run_together: the live line sends to {self.sends_to!r}, and the retry line reads "
                f"{reads!r}: what leaves the line would never come back; give both the same "
                "RetryTopics"
            )
        return retry


def _prefix(line: LinearConsumer) -> str | None:
    retries = line._config.retries
    return retries.prefix if isinstance(retries, RetryTopics) else None


def _order_error() -> ConfigurationError:
    return ConfigurationError(
        "run_together takes the live line, then a function that creates the retry line: the topics "
        "of the second are the RetryTopics to which the first sends"
    )
