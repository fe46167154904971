"""The library's errors, split by what the caller can do about them."""


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
