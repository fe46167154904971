"""Finds members whose clocks disagree, by the outages that both have seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from linear_retry.records.durations import DAY_MS
from linear_retry.tuning.outages import Numbers

__all__ = ["ClocksApart", "clocks_apart"]

_SKEW_MS = 2_000.0
"""Openings that are no further apart are of one outage: members notice it by their next message."""
_APART_MS = 60_000.0
"""Openings of one member that are closer are of one outage."""
_FEWEST = 5
_MOST = 300


@dataclass(frozen=True, slots=True)
class ClocksApart:
    """What `ahead` saw, `behind` saw `by_ms` earlier by its own clock, in `shared` outages."""

    ahead: str
    behind: str
    by_ms: int
    shared: int


def clocks_apart(opened_ms: Mapping[str, Numbers]) -> ClocksApart | None:
    """Returns the two members whose clocks differ most, from the times of each one's openings.

    Clocks that differ make several outages of one. They show by openings of two members that are
    the same time apart again and again, and hardly ever together: in five outages at least, and in
    half of those that the member with fewer has seen. Members that never saw the same outage say
    nothing about their clocks.
    """
    seen = {member: _outages(times) for member, times in sorted(opened_ms.items())}
    pairs = (_compared(one, seen[one], two, seen[two]) for one, two in combinations(seen, 2))
    return max(filter(None, pairs), key=lambda pair: pair.by_ms, default=None)


def _outages(times_ms: Numbers) -> Numbers:
    """Returns the beginnings of the latest outages: an outage may open many circuits."""
    ordered = np.sort(np.asarray(times_ms, np.float64))
    is_first = np.diff(ordered, prepend=-np.inf) > _APART_MS
    return ordered[is_first][-_MOST:]


def _compared(one: str, first_ms: Numbers, two: str, second_ms: Numbers) -> ClocksApart | None:
    differences = (first_ms[:, None] - second_ms).ravel()
    near = np.sort(differences[np.abs(differences) <= DAY_MS])
    counts = np.searchsorted(near, near + 2 * _SKEW_MS, side="right") - np.arange(len(near))
    most = int(counts.max(initial=0))
    if most < max(_FEWEST, min(len(first_ms), len(second_ms)) / 2):
        return None
    start = int(counts.argmax())
    shift_ms = float(np.median(near[start : start + most]))
    together = int((np.abs(near) <= _SKEW_MS).sum())
    if abs(shift_ms) <= _SKEW_MS or 2 * together > most:
        return None
    ahead, behind = (one, two) if shift_ms > 0 else (two, one)
    return ClocksApart(ahead, behind, round(abs(shift_ms)), most)
