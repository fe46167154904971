"""The story of a race, in lines for a person."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from linear_retry.testing import AttemptFinished, AttemptStarted, Committed, Entry, EventEmitted

_MOST_ALIKE = 4


def told(log: Iterable[Entry]) -> Iterator[str]:
    """All of it. Of hundreds that are alike, and nothing between them, the first and the last."""
    for _, group in groupby(log, _kind):
        alike = list(group)
        left_out = len(alike) - 2
        if len(alike) <= _MOST_ALIKE:
            yield from map(_brief, alike)
        else:
            yield from (_brief(alike[0]), f"... {left_out} more like it ...", _brief(alike[-1]))


def _kind(entry: Entry) -> tuple[str, str]:
    if isinstance(entry, EventEmitted):
        return entry.member, type(entry.event).__name__
    if isinstance(entry, AttemptStarted | AttemptFinished):
        return entry.member, f"attempts of {entry.place[0]}"
    return entry.member, type(entry).__name__


def _brief(entry: Entry) -> str:
    """Without the names of hundreds of partitions."""
    if isinstance(entry, EventEmitted) and hasattr(entry.event, "partitions"):
        kind, count = type(entry.event).__name__, len(entry.event.partitions)
        return f"{entry.at_s:.3f} {entry.member}: {kind}, {count} partitions"
    if isinstance(entry, Committed):
        return f"{entry.at_s:.3f} {entry.member}: {len(entry.offsets)} offsets are committed"
    return str(entry)
