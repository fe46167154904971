"""Hands a message over to the user's own function in place of the dead-letter topic."""

from collections.abc import Mapping

from linear_retry.consumer.letters.publisher import Steps
from linear_retry.consumer.settings.line import Recovery
from linear_retry.errors import UsageError
from linear_retry.kafka import Message
from linear_retry.records.text import brief
from linear_retry.retry.callables import UndoneError, check_result
from linear_retry.retry.case import Held
from linear_retry.retry.engine import Abandoned, Acknowledged, Answer, NotSent
from linear_retry.retry.failed_attempt import release
from linear_retry.scope import Partition, Place


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
        trace = error.__traceback__
        try:
            check_result(self._callback(held.message, error))
        except UndoneError as undone:
            place = Place(*held.partition, held.offset)
            raise UsageError(
                f"{place}: Recovery callback={self._callback!r} returned {undone}"
            ) from None
        except Exception as raised:  # noqa: BLE001  (the user's: any exception means another call)
            answer = NotSent(brief(raised))
            # Else what it holds, such as a lock, lasts until the next call: where it raises the
            # error that it was given, its frames hang on that.
            release(raised)
            error.__traceback__ = trace
        yield True
        # If the partition was reassigned to us meanwhile, the message is delivered again, and said
        # to be handed over then.
        has_come_back = self._epochs.get(held.partition) not in (None, held.epoch)
        return Abandoned() if has_come_back else answer
