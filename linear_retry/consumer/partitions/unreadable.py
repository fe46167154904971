"""The partitions whose next batch the brokers have, and librdkafka cannot read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from linear_retry.scope import Partition

_RETRY_DELAYS_S = (5.0, 10.0, 30.0, 60.0)


@dataclass(frozen=True, slots=True)
class Unread:
    """Where a partition has stopped: `offset` is the next to read, which failed `tries` times.

    `is_stopped`: it is paused until `retry_at_s`; otherwise it is being read once more.
    """

    offset: int
    tries: int
    since_s: float
    retry_at_s: float
    is_stopped: bool = True


class Unreadable:
    """Owns that state. A partition leaves it by being read again, stepped over, or taken away.

    `is_searching`: for the end of a batch that is to be stepped over, in short steps.
    """

    def __init__(self) -> None:
        self.is_searching = False
        self._unread: dict[Partition, Unread] = {}

    # -- questions -------------------------------------------------------------------------

    def __bool__(self) -> bool:
        return bool(self._unread)

    def get(self, partition: Partition) -> Unread | None:
        return self._unread.get(partition)

    def stops(self, partition: Partition) -> bool:
        """Whether it is to be paused."""
        unread = self._unread.get(partition)
        return unread is not None and unread.is_stopped

    def due(self, now_s: float) -> list[Partition]:
        """Those to be read once more."""
        return [
            partition
            for partition, unread in self._unread.items()
            if unread.is_stopped and unread.retry_at_s <= now_s
        ]

    # -- commands --------------------------------------------------------------------------

    def stop(self, partition: Partition, offset: int, now_s: float) -> float:
        """Stop it, at first or once more; returns for how long."""
        before = self._unread.get(partition)
        tries, since_s = (1, now_s) if before is None else (before.tries + 1, before.since_s)
        delay_s = _RETRY_DELAYS_S[min(tries, len(_RETRY_DELAYS_S)) - 1]
        self._unread[partition] = Unread(offset, tries, since_s, now_s + delay_s)
        return delay_s

    def read_again(self, partition: Partition) -> None:
        """It is being read once more."""
        self._unread[partition] = replace(self._unread[partition], is_stopped=False)

    def forget(self, partitions: Iterable[Partition]) -> None:
        """They can be read, or are not ours any more."""
        for partition in partitions:
            self._unread.pop(partition, None)
