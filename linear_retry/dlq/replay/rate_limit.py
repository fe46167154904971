"""Limits how many messages are sent a second."""

import time
from collections.abc import Callable

LARGEST_BATCH = 5_000
"""Messages in one transaction: of more, nothing is gained, and each lasts longer."""

_SLICE_S = 0.5  # Ctrl-C is heard between two waits


class RateLimit:
    """Batches of messages, never more than `rate` a second since the first."""

    def __init__(
        self,
        rate: float | None,
        largest_batch: int = LARGEST_BATCH,
        now_s: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        """`rate` None: as fast as it goes."""
        self._rate = rate
        self.largest_batch = largest_batch
        if rate is not None:  # about as many as half a second has
            self.largest_batch = max(1, min(largest_batch, int(rate / 2)))
        self._now_s = now_s
        self._wait = wait
        self._next_s: float | None = None

    def acquire(self, messages: int) -> None:
        """Wait until a batch of so many may go."""
        if self._rate is None:
            return
        now_s = self._now_s()
        begin_s = now_s if self._next_s is None else max(self._next_s, now_s)
        while (left_s := begin_s - self._now_s()) > 0:
            self._wait(min(left_s, _SLICE_S))
        self._next_s = begin_s + messages / self._rate
