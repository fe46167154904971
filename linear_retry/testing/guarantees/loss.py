"""Is anything lost?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from linear_retry.scope import Partition
from linear_retry.testing.event_log import Begun, Committed, Ended, Entry
from linear_retry.testing.guarantees.done import DONE_BY_EVENT, Done
from linear_retry.testing.guarantees.guarantee import Guarantee, all_but

_SHOWN_OFFSETS = 10


class NothingLost(Guarantee):
    """In the end every visible message is done and committed.

    To be asked once the last fault is long past and the last `retry_at` has come. Done are those
    that were handled, dead-lettered, skipped by `on_permanent="skip"`, or passed over; and those
    that retention took, where the consumer said so (`DataLost`).
    """

    _passes_over = all_but(Begun, Ended, Committed, *DONE_BY_EVENT)

    def __init__(self, visible: Mapping[Partition, Iterable[int]]) -> None:
        """`visible`: the offsets that a reader finds, or would have found before retention."""
        super().__init__()
        self._visible = {partition: sorted(offsets) for partition, offsets in visible.items()}
        self._done = Done()
        self._committed: dict[Partition, int] = {}
        self._last: dict[Partition, Entry] = {}

    def feed(self, entry: Entry) -> None:
        self._done.feed(entry)
        match entry:
            case Begun() | Ended():
                self._last[entry.place[:2]] = entry
            case Committed():
                self._committed.update(entry.offsets)
                self._last.update(dict.fromkeys(entry.offsets, entry))

    def finish(self) -> None:
        for partition, visible in self._visible.items():
            done = self._done.in_partition(partition)
            undone = [offset for offset in visible if offset not in done]
            committed = self._committed.get(partition, 0)
            if undone:
                self._lack(
                    partition,
                    f"never done: {undone[:_SHOWN_OFFSETS]} ({len(undone)} in all)",
                )
            elif visible and committed <= visible[-1]:
                self._lack(partition, f"done up to {visible[-1]}, committed up to {committed}")

    def _lack(self, partition: Partition, what: str) -> None:
        text = f"{partition[0]}[{partition[1]}]: {what}"
        self._break(text, None, self._last.get(partition), partition=partition)
