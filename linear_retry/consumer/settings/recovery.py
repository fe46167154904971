"""The user's setting for a function in place of the dead-letter topic."""

from collections.abc import Callable
from dataclasses import dataclass

from linear_retry.consumer.settings.values import check_limit, read_hold_s
from linear_retry.errors import ConfigurationError
from linear_retry.kafka import Message
from linear_retry.retry.callables import why_not


@dataclass(frozen=True, slots=True)
class Recovery:
    """`on_exhausted=Recovery(callback)` hands a message over that retrying has not saved.

    `callback(message, error)` is called with its last error. Once it returns, the message is done;
    if it raises, the circuit opens, and it, not the handler, is called again after 1, 2, 5, 10, 10
    ... seconds. It runs on the thread that owns the consumer, and counts towards
    `max.poll.interval.ms` as a handler does: too slow, it is called again for the message. After a
    crash it may be called again for the same message. Permanent errors go where `on_permanent`
    says.

    `limit` and `hold` are as in `DeadLetters`.
    """

    callback: Callable[[Message, Exception], object]
    limit: int | None = None
    hold: float | str | None = None

    def __post_init__(self) -> None:
        """Checks the values. Raises `ConfigurationError`."""
        refusal = why_not(self.callback, 2)
        if refusal is not None:
            raise ConfigurationError(
                f"Recovery callback={self.callback!r}: not a function of a message and its error "
                f"({refusal}); give a plain function of these two"
            )
        check_limit(self.limit)
        read_hold_s(self.hold)

    @property
    def hold_s(self) -> float | None:
        """`hold` in seconds."""
        return read_hold_s(self.hold)
