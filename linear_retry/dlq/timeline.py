"""When were letters written, in spans of a readable length?"""

from __future__ import annotations

from collections import Counter

_SECOND_MS = 1000
# Each is a multiple of the one before, so that counts can be put together.
_LENGTHS_S = (1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 28 * 86_400, 364 * 86_400)
_SPANS_AT_MOST = 2_000


class Timeline:
    """Counts by time, in bounded memory: where the spans are too many, they become longer."""

    def __init__(self) -> None:
        self.length_ms = _SECOND_MS
        self._counts: Counter[int] = Counter()

    def add(self, at_ms: int) -> None:
        self._counts[at_ms // self.length_ms] += 1
        if len(self._counts) > _SPANS_AT_MOST:
            self._lengthen()

    def spans(self, at_most: int) -> list[tuple[int, int]]:
        """Beginning, in ms, and count of each span, without gaps: at most so many, at least 1."""
        while self._counts and max(self._counts) - min(self._counts) >= at_most:
            self._lengthen()
        if not self._counts:
            return []
        numbers = range(min(self._counts), max(self._counts) + 1)
        return [(number * self.length_ms, self._counts[number]) for number in numbers]

    def _lengthen(self) -> None:
        length_ms = next(
            (1000 * s for s in _LENGTHS_S if 1000 * s > self.length_ms), 10 * self.length_ms
        )
        times, self.length_ms = length_ms // self.length_ms, length_ms
        counts: Counter[int] = Counter()
        for number, found in self._counts.items():
            counts[number // times] += found
        self._counts = counts
