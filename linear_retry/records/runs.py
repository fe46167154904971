"""A set of offsets, or of sequence numbers, with few gaps."""

from bisect import bisect_right
from operator import sub


class Runs:
    """A set of offsets, kept as runs: what is handled for days takes no more room than a minute's.

    There are as many runs as gaps between them, and one more.
    """

    __slots__ = ("_begins", "_ends")

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []

    def add(self, offset: int) -> None:
        self.add_range(offset, offset + 1)

    def add_range(self, begin: int, end: int) -> None:
        """All from `begin` to `end`, that one not included. None where there are none between."""
        ends = self._ends
        if begin >= end:
            return
        if ends and ends[-1] == begin:  # nearly always
            ends[-1] = end
            return
        # The first run that is touched, and the first beyond that is not.
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
        """How many are not in it, between its first and its last."""
        return sum(map(sub, self._begins[1:], self._ends))

    def __len__(self) -> int:
        """How many runs: what it takes to keep it."""
        return len(self._begins)
