"""Says once that a wait which the handler asks for cannot be read."""

from __future__ import annotations

from linear_retry.log import log_unread_wait
from linear_retry.retry.decision import Failure, Transient


class UnreadWaits:
    """What is wrong in the handler, or at a server, is so at every failure."""

    def __init__(self) -> None:
        self._is_said = False

    def note(self, failure: Failure) -> None:
        """Log it where it is so, and was not so before."""
        if isinstance(failure, Transient) and failure.unread is not None and not self._is_said:
            self._is_said = True
            log_unread_wait(failure.unread)
