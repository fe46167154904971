"""Closes a consumer at the end of its `with` or `async with` block."""

import asyncio
from types import TracebackType
from typing import Self

from linear_retry.errors import LinearRetryError


class ClosedAtExit:
    """A context manager, in both forms: leaving the block closes the consumer."""

    @property
    def _closes_here(self) -> bool:
        """Whether the current thread must close it itself, not wait for the owner."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close_after(error)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Waits off the event loop, which `run_async` in another task needs in order to end.
        # A coroutine that is being garbage-collected cannot await anything.
        if self._closes_here or isinstance(error, GeneratorExit):
            self._close_after(error)
        else:
            await asyncio.to_thread(self._close_after, error)

    def _close_after(self, error: BaseException | None) -> None:
        try:
            self.close()
        except LinearRetryError as last:
            if error is None:
                raise
            error.add_note(f"and at close: {last}")
