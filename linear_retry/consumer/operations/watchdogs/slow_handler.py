"""Counts how many times in a row the handler was too slow at one offset."""

from linear_retry.errors import HandlerTooSlowError
from linear_retry.events import HandlerTooSlow
from linear_retry.scope import Partition

HOPELESS_AFTER = 3


class SlowHandlerCount:
    """Keeps one offset per partition. Survives a loss: else a handler that is always too slow would
    loop for ever: lost, assigned again, attempted again, lost.
    """

    def __init__(self) -> None:
        self._seen: dict[Partition, tuple[int, int]] = {}

    def count(self, partition: Partition, offset: int) -> int:
        """Counts an overrun, and returns how many in a row this offset has had."""
        before, count = self._seen.get(partition, (offset, 0))
        count = count + 1 if before == offset else 1
        self._seen[partition] = offset, count
        return count


def raise_if_fatal(slow: HandlerTooSlow) -> None:
    """Raises `HandlerTooSlowError` at the third overrun in a row."""
    if slow.attempts < HOPELESS_AFTER:
        return
    raise HandlerTooSlowError(
        f"{slow.place}: the {slow.what} took {slow.elapsed_s:.1f} s, and "
        f"max.poll.interval.ms allows {slow.max_poll_interval_s:g} s; that was the third time in a "
        f"row; make the {slow.what} faster or raise max.poll.interval.ms",
        topic=slow.topic,
        partition=slow.partition,
        offset=slow.offset,
        failures=0,
    )
