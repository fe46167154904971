"""A set of offsets, or of sequence numbers, with few gaps."""

from bisect import bisect_right
from operator import sub


class Runs:
    """A set of offsets, kept as runs: memory does not grow with the number of offsets.

    There is one run more than there are gaps.
    """

    __slots__ = ("_begins", "_ends")

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []

    def add(self, offset: int) -> None:
        self.add_range(offset, offset + 1)

    def add_range(self, begin: int, end: int) -> None:
        """Adds all from `begin` up to, but not including, `end`; nothing if the range is empty."""
        ends = self._ends
        if begin >= end:
            return
        if ends and ends[-1] == begin:  # the usual case
            ends[-1] = end
            return
        # The first run that overlaps or adjoins the range, and the first after it that does not.
        first = bisect_right(ends, begin - 1)
        beyond = bisect_right(self._begins, end)
        if first < beyond:
            begin = min(begin, self._begins[first])
            end = max(end, ends[beyond - 1])
        self._begins[first:beyond] = [begin]
        ends[first:beyond] = [end]

    def __contains__(self, offset: int) -> bool:
        index = bisect_right(self._begins, offset)
        return index > 0 and offset < self._ends[index - 1]

    @property
    def missing(self) -> int:
        """The number of values missing between the first and the last."""
        return sum(map(sub, self._begins[1:], self._ends))

    def __len__(self) -> int:
        """The number of runs, which is what its memory grows with."""
        return len(self._begins)
