"""Statistics of the letters in a topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from linear_retry.dlq.counting import TRAITS, Counts, Group
from linear_retry.dlq.letters.letter import Letter, State
from linear_retry.dlq.timeline import Timeline

TOP = 10
SPANS_AT_MOST = 24

_TOPS = ("reason", "exception", "origin", "key")


@dataclass(frozen=True, slots=True)
class Top:
    """The most frequent: text (None: it is not said) and count. `different` are there in all.

    Where `others` is not 0, there were more different ones than are counted one by one.
    """

    most: tuple[tuple[str | None, int], ...]
    different: int
    others: int


@dataclass(frozen=True, slots=True)
class Stats:
    """What letters are there. Times in ms of UTC, of when letters were written; None: of none."""

    letters: int
    states: Mapping[State, int]
    formats: Mapping[str, int]
    oldest_ms: int | None
    newest_ms: int | None
    oldest_open_ms: int | None
    tops: Mapping[str, Top]
    """By `reason`, `exception` (its type), `origin` (topic) and `key`."""
    spans: tuple[tuple[int, int], ...]
    """Beginning and count of spans of `span_ms`, in order, without gaps."""
    span_ms: int


def stats_of(letters: Iterable[tuple[Letter, State]]) -> Stats:
    """Reads them once, in bounded memory."""
    states: Counter[State] = Counter()
    formats: Counter[str] = Counter()
    counts = [(TRAITS[name], Counts()) for name in _TOPS]
    timeline = Timeline()
    oldest_ms: int | None = None
    newest_ms: int | None = None
    oldest_open_ms: int | None = None
    for letter, state in letters:
        states[state] += 1
        formats[letter.format] += 1
        for trait, found in counts:
            found.add((trait(letter, state),))
        at_ms = letter.timestamp_ms
        if at_ms >= 0:
            timeline.add(at_ms)
            oldest_ms = at_ms if oldest_ms is None or at_ms < oldest_ms else oldest_ms
            newest_ms = at_ms if newest_ms is None or at_ms > newest_ms else newest_ms
            if state is State.OPEN and (oldest_open_ms is None or at_ms < oldest_open_ms):
                oldest_open_ms = at_ms
    return Stats(
        letters=states.total(),
        states={state: states[state] for state in State},
        formats=dict(sorted(formats.items(), key=lambda each: (-each[1], each[0]))),
        oldest_ms=oldest_ms,
        newest_ms=newest_ms,
        oldest_open_ms=oldest_open_ms,
        tops={name: _top(found) for name, (_, found) in zip(_TOPS, counts, strict=True)},
        spans=tuple(timeline.spans(SPANS_AT_MOST)),
        span_ms=timeline.length_ms,
    )


def _top(counts: Counts) -> Top:
    most = tuple((_single(group), number) for group, number in counts.most(TOP))
    return Top(most, len(counts), counts.others)


def _single(group: Group) -> str | None:
    (text,) = group
    return text
