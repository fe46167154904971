"""Hands batches to the handler of `run_batches`, and notes what it has done with each."""

from collections.abc import Callable
from typing import TypeAlias

from linear_retry.consumer.runners.results import Results
from linear_retry.consumer.runners.run_handler import Batch
from linear_retry.errors import UsageError
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import place_of

BatchHandler: TypeAlias = Callable[[list[Message]], object]


class BatchError(Exception):
    """Raised by a handler of `run_batches`: it is done with all messages before `index`.

    The message at `index`, 0-based in the list that the handler was given, has failed with `cause`,
    whose type decides whether it is attempted again. The next batch begins with it.

    Raises `UsageError` if `index` is not a number from 0 on, or `cause` is not an `Exception`.
    """

    def __init__(self, index: int, cause: Exception) -> None:
        if isinstance(index, bool) or not isinstance(index, int) or index < 0:
            raise UsageError(
                f"BatchError index={index!r}: must be the position of the failed message in its "
                "batch, from 0 on"
            )
        if not isinstance(cause, Exception):
            raise UsageError(
                f"BatchError cause={cause!r}: must be an instance of Exception, such as "
                "OSError('down')"
            )
        super().__init__(index, cause)
        self.index = index
        self.cause = cause

    def __str__(self) -> str:
        return f"message {self.index} of the batch: {self.cause!r}"


def attempt_batch(batch: Batch, handler: BatchHandler, results: Results) -> None:
    """Calls the handler once with all messages of the batch.

    What is not an `Exception` passes through: nothing of the batch is done then, and nothing has
    failed. Raises `UsageError` if a `BatchError` names a message that is not in the batch.
    """
    count = len(batch.messages)
    batch.note_failed_from(0, count)
    try:
        # A copy: what the handler does to its list changes nothing here.
        results.check(handler(list(batch.messages)))
    except BatchError as failed:
        if failed.index >= count:
            raise UsageError(
                f"{place_of(batch.messages[0])}: the handler raised BatchError with index "
                f"{failed.index} for a batch of {count}; count from 0"
            ) from failed
        batch.note_failed_from(failed.index, failed.index + 1, failed.cause)
    except Exception as error:  # noqa: BLE001  (the handler may raise anything)
        batch.note_failed_from(0, count, error)
    else:
        batch.note(count, in_hand=False)
