"""Was a message overtaken?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from linear_retry.scope import Partition
from linear_retry.testing.event_log import Begun, Ended, Entry, shown
from linear_retry.testing.guarantees.done import DONE_BY_EVENT, Done
from linear_retry.testing.guarantees.guarantee import Guarantee, all_but


class InOrder(Guarantee):
    """A message is attempted only when every visible one before it in its partition is done."""

    _passes_over = all_but(Begun, Ended, *DONE_BY_EVENT)

    def __init__(self, visible: Mapping[Partition, Iterable[int]]) -> None:
        """`visible`: the offsets that a reader finds, or would have found before retention."""
        super().__init__()
        self._visible = {partition: sorted(offsets) for partition, offsets in visible.items()}
        self._first_undone: dict[Partition, int] = defaultdict(int)
        self._last: dict[Partition, Begun] = {}
        self._done = Done()

    def feed(self, entry: Entry) -> None:
        self._done.feed(entry)
        if not isinstance(entry, Begun):
            return
        partition, offset = entry.place[:2], entry.place[2]
        before = self._next_undone(partition)
        if before is not None and before < offset:
            text = f"{shown(entry.place)} was attempted before {before} was done"
            self._break(text, self._last.get(partition), entry, partition=partition)
        self._last[partition] = entry

    def _next_undone(self, partition: Partition) -> int | None:
        visible, done = self._visible.get(partition, []), self._done.in_partition(partition)
        index = self._first_undone[partition]
        while index < len(visible) and visible[index] in done:
            index += 1
        self._first_undone[partition] = index
        return visible[index] if index < len(visible) else None
