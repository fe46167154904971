"""Hands batches to the handler of `run_batches`, and notes what it has done with each."""

from collections.abc import Callable
from typing import TypeAlias

from linear_retry.consumer.runners.results import Results
from linear_retry.consumer.runners.run_handler import Batch
from linear_retry.errors import UsageError
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import place_of
from linear_retry.retry.batch_error import BatchError
from linear_retry.retry.failed_attempt import release

BatchHandler: TypeAlias = Callable[[list[Message]], object]


def attempt_batch(batch: Batch, handler: BatchHandler, results: Results) -> None:
    """Calls the handler once with all messages of the batch.

    What is not an `Exception` passes through: nothing of the batch is done then, and nothing has
    failed. Raises `UsageError` if a `BatchError` cannot be meant.
    """
    count = len(batch.messages)
    batch.note_failed_from(0, count)
    try:
        # A copy: what the handler does to its list changes nothing here.
        results.check(handler(list(batch.messages)))
    except BatchError as failed:
        _check(failed, batch)
        batch.note_failed_from(failed.index, failed.index + 1, failed.cause)
        release(failed)
    except Exception as error:  # noqa: BLE001  (the handler may raise anything)
        batch.note_failed_from(0, count, error)
    else:
        batch.note(count, in_hand=False)


def _check(failed: BatchError, batch: Batch) -> None:
    index, count = failed.index, len(batch.messages)
    where = f"{place_of(batch.messages[0])}: the handler raised BatchError with"
    # Not True, which is 1: it was meant for something else.
    if type(index) is not int or not 0 <= index < count:
        raise UsageError(
            f"{where} index={index!r} for a batch of {count}: must be the position of the failed "
            "message in its list, from 0 on"
        ) from failed
    if not isinstance(failed.cause, Exception):
        raise UsageError(
            f"{where} cause={failed.cause!r}: must be an instance of Exception, such as "
            "OSError('down')"
        ) from failed
