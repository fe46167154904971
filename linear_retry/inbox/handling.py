"""Calls the user's handler within a transaction that has the place of its message."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from linear_retry.errors import StoreError, UsageError
from linear_retry.inbox.places import Places
from linear_retry.kafka import Message
from linear_retry.retry.callables import check_result, is_coroutine_function
from linear_retry.retry.failed_attempt import BatchError
from linear_retry.store.database import reason_of

_PASSING = {"OperationalError", "InterfaceError", "InternalError"}
"""The names that each library gives the errors of a database that is away (PEP 249)."""


class _RehearsedError(Exception):
    """Ends a rehearsal's transaction, which is rolled back."""


class Transacting:
    """Begins a transaction for each message or batch, and notes in it that this is done.

    It is committed when the handler returns, and rolled back when it raises. What was done before
    is not given to the handler again.
    """

    def __init__(self, places: Places, begin: Callable[[], Any]) -> None:
        """`begin` returns the context manager of a transaction, plain or asynchronous."""
        self._places = places
        self._begin = begin
        self.claim = places.claim
        self.starts = places.starts
        self.is_done = places.is_done
        self.leave = places.leave
        self.passed = places.passed
        self.lost = places.lost

    def close(self) -> None:
        """Closes the connections of the places."""
        self._places.close()

    def check(self) -> None:
        """Begins a transaction, and raises for what could not work, as `Places.check` does."""
        self._places.check_tables()
        with self._transaction() as transaction:
            self._places.check(transaction)

    async def check_async(self) -> None:
        """As `check`, for `run_async`."""
        self._places.check_tables()
        async with self._async_transaction() as transaction:
            await transaction.run_sync(self._places.check)

    @contextmanager
    def transaction(self, message: Message) -> Iterator[Any]:
        """Yields a transaction that notes it as done; None if it was done before."""
        with self._transaction() as transaction:
            with _passing():
                is_new = self._places.take(transaction, [message])
            yield transaction if is_new else None
        self._places.committed([message])

    def handling(self, handler: Callable[..., object]) -> Callable[[Message], object]:
        """Returns a handler of messages that calls `handler(message, transaction)`."""

        def handle(message: Message) -> None:
            with self.transaction(message) as transaction:
                if transaction is not None:
                    # Within it: what is undone then is rolled back.
                    check_result(handler(message, transaction))

        return handle

    def handling_batches(self, handler: Callable[..., object]) -> Callable[[list[Message]], object]:
        """Returns a handler of batches that calls `handler(messages, transaction)`.

        A `BatchError` of the handler's is as if it raised the cause: nothing of the batch is done.
        """

        def handle(batch: list[Message]) -> None:
            try:
                with self._transaction() as transaction:
                    with _passing():
                        new = self._places.take(transaction, batch)
                    if new:
                        check_result(handler(new, transaction))
                self._places.committed(batch)
            except BatchError as failed:
                if isinstance(failed.cause, Exception):
                    raise failed.cause from None
                raise

        return handle

    def handling_async(
        self, handler: Callable[..., Awaitable[object]]
    ) -> Callable[[Message], Awaitable[object]]:
        """Returns `handling` for `run_async`."""

        async def handle(message: Message) -> object:
            async with self._async_transaction() as transaction:
                with _passing():
                    is_new = await transaction.run_sync(self._places.take, [message])
                result = await handler(message, transaction) if is_new else None
            self._places.committed([message])
            return result

        return handle

    def rehearsing(self, handler: Callable[..., Any]) -> Callable[[Any], Any]:
        """Returns a handler that calls `handler` in a transaction which is rolled back.

        It writes no place. For `linear-retry dlq rehearse`.
        """

        def handle(messages: Any) -> None:
            with suppress(_RehearsedError), self._transaction() as transaction:
                check_result(handler(messages, transaction))
                raise _RehearsedError

        async def handle_async(message: Message) -> None:
            with suppress(_RehearsedError):
                async with self._async_transaction() as transaction:
                    await handler(message, transaction)
                    raise _RehearsedError

        return handle_async if is_coroutine_function(handler) else handle

    # -- inside ----------------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        with _passing():
            manager = self._begin()
            if not hasattr(manager, "__exit__"):
                raise UsageError(
                    "inbox: only run_async has transactions that are entered with `async with`; "
                    "others need those of an Engine, which are entered with `with`"
                )
            transaction = manager.__enter__()
        try:
            yield transaction
        except BaseException as error:
            with suppress(Exception):  # the session is gone, and the transaction with it
                manager.__exit__(type(error), error, error.__traceback__)
            raise
        with _passing():
            manager.__exit__(None, None, None)

    @asynccontextmanager
    async def _async_transaction(self) -> AsyncIterator[Any]:
        with _passing():
            manager = self._begin()
            if not hasattr(manager, "__aexit__"):
                raise UsageError(
                    "inbox: run_async needs transactions that are entered with `async with`, such "
                    "as those of an AsyncEngine; others would block its event loop"
                )
            transaction = await manager.__aenter__()
        try:
            yield transaction
        except BaseException as error:
            with suppress(Exception):  # the session is gone, and the transaction with it
                await manager.__aexit__(type(error), error, error.__traceback__)
            raise
        with _passing():
            await manager.__aexit__(None, None, None)


@contextmanager
def _passing() -> Iterator[None]:
    """Raises `StoreError`, which is transient, for an error of a database that is away."""
    try:
        yield
    except Exception as error:
        names = {kind.__name__ for kind in type(error).__mro__}
        if not (names & _PASSING or isinstance(error, OSError) or "TimeoutError" in names):
            raise
        raise StoreError(
            f"inbox: no transaction ({type(error).__name__}: {reason_of(error)}); a later attempt "
            "may succeed"
        ) from error
