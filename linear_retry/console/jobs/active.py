"""A job that a thread works on: how far it is, and whether it must end."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event

from linear_retry.console.jobs.job import Job
from linear_retry.kafka.topics.reader import Progress

_WRITTEN_EVERY_S = 1.0


class CancelledError(Exception):
    """Leaves the work of a job that is cancelled, between two transactions."""


class Active:
    """Belongs to one thread; others read it, and may cancel it."""

    def __init__(self, job: Job) -> None:
        self.job = job
        """As it was when the thread began."""
        self.done, self.total = job.done, job.total
        self.cancelled_by: str | None = None
        """Who has; None: the server ends."""
        self.ended = Event()
        self._cancelled = Event()
        self._written_s = 0.0

    def cancel(self, actor: str | None) -> None:
        """Lets the next call of its progress raise `CancelledError`. The first one counts."""
        if not self._cancelled.is_set():
            self.cancelled_by = actor
            self._cancelled.set()

    def progress(self, write: Callable[[int], None]) -> Progress:
        """Returns what the work calls after each part; `write` is called once a second."""

        def progress(done: int, total: int) -> None:
            if total:
                self.done, self.total = done, total
            now_s = time.monotonic()
            if now_s - self._written_s > _WRITTEN_EVERY_S:
                self._written_s = now_s
                write(self.done)
            if self._cancelled.is_set():
                raise CancelledError

        return progress

    def how_far(self) -> str:
        """Returns by whom it was cancelled, and after how much."""
        by = "" if self.cancelled_by is None else f"by {self.cancelled_by} "
        if not self.job.total:
            return f"{by}before it was planned"
        return f"{by}after {self.done} of {self.job.total} letters"

    def at_least(self) -> str:
        """Returns after how much it has failed: what was done last may not be known."""
        return f"after {self.done} of {self.job.total} letters or more"
