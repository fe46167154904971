"""What can go wrong, split by what the caller can do about it?"""

from __future__ import annotations

import math


class LinearRetryError(Exception):
    """Everything that `linear_retry` raises of its own accord."""


class ConfigurationError(LinearRetryError):
    """A setting breaks the promise; the message says key, value, rule and remedy. Correct it."""


class StrategyError(ConfigurationError, ValueError):
    """A strategy is not one. `problems` holds one sentence each, all of them at once."""

    def __init__(self, problems: list[str] | tuple[str, ...]) -> None:
        self.problems: tuple[str, ...] = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(self.problems)


class UsageError(LinearRetryError):
    """The program calls the library in a way that cannot work. Correct the program."""


class _MessageError(LinearRetryError):
    """An error about one message; its cause (`__cause__`) is what the handler raised."""

    # The defaults are for pickle, which gives the text first and the attributes after.
    def __init__(
        self,
        text: str,
        *,
        topic: str = "",
        partition: int = -1,
        offset: int = -1,
        failures: int = 0,
    ) -> None:
        super().__init__(text)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.failures = failures


class ExhaustedError(_MessageError):
    """`on_exhausted="stop"`: the strategy has run out. Nothing is committed past the message."""


class PermanentError(_MessageError):
    """`on_permanent="stop"`: not a transient error. Nothing is committed past the message."""


class HandlerTooSlowError(_MessageError):
    """The handler took longer than `max.poll.interval.ms` three times in a row for one offset."""


class DeadLetterError(LinearRetryError):
    """A dead letter cannot be written or read, and trying again cannot help."""


class FencedError(LinearRetryError):
    """Another member has this one's place (`group.instance.id`, `transactional.id`)."""


class DataLossError(LinearRetryError):
    """Retention removed messages that had not been handled, and `auto.offset.reset` is `error`."""


class BrokerError(LinearRetryError):
    """The brokers cannot be reached at the start, or refuse what cannot be tried again."""


class UnknownTopicError(BrokerError):
    """There is no topic of this name."""


MAX_RETRY_AFTER_S = 3600.0


class RetryAfter(Exception):  # noqa: N818  (a request of the handler's, not an error of ours)
    """Raised by a handler: transient, and wait at least `seconds` this once.

    Counts as a failure; the delay is `max(seconds, the strategy's)`. For HTTP 429 and 503.
    What is beyond 0 to 3600 is cut to that range, and NaN is 0: a ValueError here would be one of
    the handler's, so permanent, and a server that says `Retry-After: 7200` would make dead letters.
    """

    def __init__(self, seconds: float, *args: object) -> None:
        super().__init__(seconds, *args)
        try:
            wanted_s = float(seconds)
        except OverflowError:
            wanted_s = math.inf if seconds > 0 else 0.0
        self.seconds = 0.0 if math.isnan(wanted_s) else min(max(wanted_s, 0.0), MAX_RETRY_AFTER_S)

    def __str__(self) -> str:
        return f"retry after {self.seconds:g} s"
