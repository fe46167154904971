"""Limits the number of messages sent per second."""

import time
from collections.abc import Callable

LARGEST_BATCH = 5_000
"""Messages per transaction: larger ones take longer and gain nothing."""

_SLICE_S = 0.5  # Ctrl-C takes effect between two waits


class RateLimit:
    """Paces batches of messages: never more than `rate` a second since the first."""

    def __init__(
        self,
        rate: float | None,
        largest_batch: int = LARGEST_BATCH,
        now_s: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        """`rate` None: no limit."""
        self._rate = rate
        self.largest_batch = largest_batch
        if rate is not None:  # about half a second's worth
            self.largest_batch = max(1, min(largest_batch, int(rate / 2)))
        self._now_s = now_s
        self._wait = wait
        self._next_s: float | None = None

    def acquire(self, messages: int, waiting: Callable[[], object] = lambda: None) -> None:
        """Waits until a batch of this many may be sent; calls `waiting`, which may raise."""
        if self._rate is None:
            return
        now_s = self._now_s()
        begin_s = now_s if self._next_s is None else max(self._next_s, now_s)
        while (left_s := begin_s - self._now_s()) > 0:
            waiting()
            self._wait(min(left_s, _SLICE_S))
        self._next_s = begin_s + messages / self._rate
