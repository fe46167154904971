"""The library's errors, split by what the caller can do about them."""


class LinearRetryError(Exception):
    """The base of all errors that `linear_retry` raises."""


class ConfigurationError(LinearRetryError):
    """A setting cannot work; the message names key, value, rule and remedy. Correct it."""


class StrategyError(ConfigurationError, ValueError):
    """The strategy is invalid. `problems` lists everything that is wrong, one sentence each."""

    def __init__(self, problems: list[str] | tuple[str, ...]) -> None:
        self.problems: tuple[str, ...] = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(self.problems)


class UsageError(LinearRetryError):
    """The program calls the library in a way that cannot work. Correct the program."""


class _MessageError(LinearRetryError):
    """An error about one message; its `__cause__` is the handler's exception."""

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
    """The handler took longer than `max.poll.interval.ms` three times in a row for one offset.

    With workers: half of them did, or one of them took three times as long.
    """


class DeadLetterError(LinearRetryError):
    """A dead letter cannot be written or read, and retrying cannot help."""


class FencedError(LinearRetryError):
    """Another member took over this one's `group.instance.id` or `transactional.id`."""


class DataLossError(LinearRetryError):
    """Retention removed messages before they were handled, and `auto.offset.reset` is `error`."""


class RetryLineError(LinearRetryError):
    """The process of the retry line ended without a word: killed, out of memory, or crashed."""


class BrokerError(LinearRetryError):
    """The brokers are unreachable at the start, or refuse a request that retrying cannot fix."""


class StoreError(LinearRetryError):
    """The store cannot be reached, or refuses for a reason that passes; retrying can help."""


class StoreVersionError(ConfigurationError):
    """The store's tables are missing, or of another version than this library's."""


class UnknownTopicError(BrokerError):
    """The topic does not exist."""
