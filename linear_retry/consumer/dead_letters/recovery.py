"""Hands a message over to the user's own function in place of the dead-letter topic."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from linear_retry.consumer.config.values import check_limit, read_hold_s
from linear_retry.consumer.dead_letters.publisher import Steps
from linear_retry.errors import ConfigurationError, UsageError
from linear_retry.kafka import Message
from linear_retry.records.text import brief
from linear_retry.retry.callables import UndoneError, check_result, why_not
from linear_retry.retry.case import Held
from linear_retry.retry.engine import Abandoned, Acknowledged, Answer, NotSent
from linear_retry.scope import Partition, Place


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


class RecoveryCall:
    """Calls the user's function, in the steps of a delivery: a return is the acknowledgement."""

    def __init__(self, recovery: Recovery, epochs: Mapping[Partition, int]) -> None:
        """`epochs` has the partitions that are ours now, each with that of its assignment."""
        self._callback = recovery.callback
        self._epochs = epochs

    def send(self, held: Held[Message], error: Exception) -> Steps[Answer]:
        """Calls it once, and has the consumer polled after that: it may have taken its time.

        Raises `UsageError` if it returns work that would not run: the message is not done.
        """
        if self._epochs.get(held.partition) != held.epoch:
            return Abandoned()
        answer: Answer = Acknowledged()
        try:
            check_result(self._callback(held.message, error))
        except UndoneError as undone:
            place = Place(*held.partition, held.offset)
            raise UsageError(
                f"{place}: Recovery callback={self._callback!r} returned {undone}"
            ) from None
        except Exception as raised:  # noqa: BLE001  (the user's: any exception means another call)
            answer = NotSent(brief(raised))
        yield True
        # If the partition was reassigned to us meanwhile, the message is delivered again, and said
        # to be handed over then.
        has_come_back = self._epochs.get(held.partition) not in (None, held.epoch)
        return Abandoned() if has_come_back else answer
