"""Lets a handler of batches say how far it got."""

from linear_retry.errors import UsageError


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
