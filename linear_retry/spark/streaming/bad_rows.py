"""Lets a handler of micro-batches name the rows that cannot be handled."""


class BadRows(Exception):  # noqa: N818  (it names rows, and its cause is the error)
    """Raised by a handler of `foreach_batch`: these rows are bad, and it is done with all others.

    `rows`: a DataFrame with the columns `topic`, `partition` and `offset`, or tuples of these
    three. They have failed permanently with `cause`: `on_permanent` decides about them. If
    they are none, or not of the micro-batch, or `cause` is no `Exception`, the query fails with
    `UsageError`, and the micro-batch is not done.
    """

    __module__ = "linear_retry.spark"  # its public name, for logs and dead letters

    def __init__(self, rows: object, cause: Exception) -> None:
        super().__init__(rows, cause)
        self.rows = rows
        self.cause = cause

    def __str__(self) -> str:
        return f"rows of the micro-batch are bad: {self.cause!r}"
