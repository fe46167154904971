"""Was something committed that is not done?"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

from linear_retry.scope import Partition
from linear_retry.testing.event_log import Begun, Committed, Ended, Entry
from linear_retry.testing.guarantees.done import Done
from linear_retry.testing.guarantees.guarantee import Guarantee


class CommittedOnlyDone(Guarantee):
    """Every visible message below a committed offset is done, and no committed offset goes back.

    Offsets that one member was told of are compared with each other, those looked up likewise: the
    answer to a commit may be late.
    """

    def __init__(self, visible: Mapping[Partition, Iterable[int]]) -> None:
        """`visible`: the offsets that a reader finds, or would have found before retention."""
        super().__init__()
        self._visible = {partition: sorted(offsets) for partition, offsets in visible.items()}
        self._checked: dict[Partition, int] = {}
        self._before: dict[tuple[str, Partition], tuple[int, Committed]] = {}
        self._last: dict[Partition, Entry] = {}
        self._done = Done()

    def feed(self, entry: Entry) -> None:
        self._done.feed(entry)
        if isinstance(entry, Begun | Ended):
            self._last[entry.place[:2]] = entry
        if isinstance(entry, Committed):
            for partition, next_offset in entry.offsets.items():
                self._only_done(partition, next_offset, entry)
                self._not_back(partition, next_offset, entry)

    def _only_done(self, partition: Partition, next_offset: int, entry: Committed) -> None:
        visible, done = self._visible.get(partition, []), self._done.in_partition(partition)
        begin, end = self._checked.get(partition, 0), bisect_left(visible, next_offset)
        for offset in visible[begin:end]:
            if offset not in done:
                text = f"{_name(partition)} is committed up to {next_offset}, {offset} is not done"
                self._break(text, self._last.get(partition), entry, partition=partition)
        self._checked[partition] = max(begin, end)

    def _not_back(self, partition: Partition, next_offset: int, entry: Committed) -> None:
        before = self._before.get((entry.member, partition))
        if before is not None and next_offset < before[0]:
            text = f"{_name(partition)} was committed up to {before[0]}, then up to {next_offset}"
            self._break(text, before[1], entry, partition=partition)
        self._before[entry.member, partition] = next_offset, entry


def _name(partition: Partition) -> str:
    return f"{partition[0]}[{partition[1]}]"
