"""When may the next batch go, if there are to be at most so many a second?"""

from __future__ import annotations

import time
from collections.abc import Callable

_SLICE_S = 0.5


class Pace:
    """Batches of messages, never more than `rate` a second since the first."""

    def __init__(
        self,
        rate: float | None,
        now_s: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        """`rate` None: as fast as it goes."""
        self._rate = rate
        self._now_s = now_s
        self._wait = wait
        self._next_s: float | None = None

    def largest(self, usual: int) -> int:
        """So many messages at most in one batch: about as many as half a second has."""
        return usual if self._rate is None else max(1, min(usual, int(self._rate / 2)))

    def await_turn(self, messages: int) -> None:
        """Return when a batch of so many may go."""
        if self._rate is None:
            return
        now_s = self._now_s()
        begin_s = now_s if self._next_s is None else max(self._next_s, now_s)
        while (left_s := begin_s - self._now_s()) > 0:
            self._wait(min(left_s, _SLICE_S))
        self._next_s = begin_s + messages / self._rate
