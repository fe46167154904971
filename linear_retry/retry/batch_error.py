"""Lets a handler of batches say how far it got."""


class BatchError(Exception):
    """Raised by a handler of `run_batches`: it is done with all messages before `index`.

    The message at `index`, 0-based in the list that the handler was given, has failed with `cause`,
    whose type decides whether it is attempted again. The next batch begins with it.

    The constructor never raises: in a handler that would look like the handler's own failure. If
    `index` is no position in the list, or `cause` no `Exception`, `run_batches` raises
    `UsageError`, and nothing of the batch is done.
    """

    __module__ = "linear_retry"  # its public name, for logs and dead letters

    index: int = -1  # for a subclass that does not call this __init__
    cause: Exception | None = None

    def __init__(self, index: int, cause: Exception) -> None:
        super().__init__(index, cause)
        self.index = index
        self.cause = cause

    def __str__(self) -> str:
        return f"message {self.index} of the batch: {self.cause!r}"
