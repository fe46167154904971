"""Counts letters by fields, and computes the statistics of a topic."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from linear_retry.dlq.letters.letter import Letter, State

DIFFERENT_AT_MOST = 100_000
TOP = 10
SPANS_AT_MOST = 24

_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # the years 1 to 9999
_SECOND_MS = 1000
# Each is a multiple of the one before, so that counts can be merged.
_LENGTHS_S = (1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 28 * 86_400, 364 * 86_400)
_SPANS_KEPT = 2_000
_TOPS = ("reason", "exception", "origin", "key")

Field: TypeAlias = Callable[[Letter, State], str | None]
Group: TypeAlias = tuple[str | None, ...]


def _time(length: int) -> Field:
    def of(letter: Letter, _: State) -> str | None:
        at_ms = letter.timestamp_ms
        if at_ms == -1 or not _FIRST_MS <= at_ms <= _LAST_MS:
            return None
        return datetime.fromtimestamp(at_ms // 1000, UTC).isoformat(" ")[:length]

    return of


def _partition(letter: Letter, _: State) -> str | None:
    origin = letter.origin
    if origin is None or origin.partition is None:
        return None
    return f"{origin.topic}[{origin.partition}]"


def _key(letter: Letter, _: State) -> str | None:
    """The key as text if it is UTF-8, else in hexadecimal digits."""
    try:
        return None if letter.key is None else letter.key.decode()
    except UnicodeDecodeError:
        return f"0x{letter.key.hex()}" if letter.key else None


FIELDS: Mapping[str, Field] = {
    "exception": lambda letter, _: letter.exception_type,
    "message": lambda letter, _: letter.exception_message,
    "origin": lambda letter, _: None if letter.origin is None else letter.origin.topic,
    "partition": _partition,
    "reason": lambda letter, _: letter.reason,
    "group": lambda letter, _: letter.group_id,
    "state": lambda _, state: state.value,
    "format": lambda letter, _: letter.format,
    "step": lambda letter, _: None if letter.step is None else str(letter.step),
    "key": _key,
    "day": _time(10),
    "hour": _time(13),
}
"""The fields that letters are grouped by, by name. None: not in the letter."""


class Counts:
    """How often each group was seen, in bounded memory.

    After the first hundred thousand different groups, new ones are counted together in `others`.
    """

    def __init__(self, different_at_most: int = DIFFERENT_AT_MOST) -> None:
        self._counts: Counter[Group] = Counter()
        self._at_most = different_at_most
        self.others = 0

    def add(self, group: Group) -> None:
        if group in self._counts or len(self._counts) < self._at_most:
            self._counts[group] += 1
        else:
            self.others += 1

    def most(self, at_most: int | None = None) -> list[tuple[Group, int]]:
        """The groups with their counts, the largest first; equal counts by name."""

        def rank(each: tuple[Group, int]) -> tuple[int, list[str]]:
            return -each[1], [part or "" for part in each[0]]

        return sorted(self._counts.items(), key=rank)[:at_most]

    def __len__(self) -> int:
        return len(self._counts)


def count(letters: Iterable[tuple[Letter, State]], fields: Sequence[str]) -> Counts:
    """Counts the letters by these fields, which are names in `FIELDS`."""
    read = [FIELDS[name] for name in fields]
    counts = Counts()
    for letter, state in letters:
        counts.add(tuple([field(letter, state) for field in read]))
    return counts


class Timeline:
    """Counts by time, in bounded memory: too many spans are merged into longer ones."""

    def __init__(self) -> None:
        self.length_ms = _SECOND_MS
        self._counts: Counter[int] = Counter()

    def add(self, at_ms: int) -> None:
        self._counts[at_ms // self.length_ms] += 1
        if len(self._counts) > _SPANS_KEPT:
            self._lengthen()

    def spans(self, at_most: int) -> list[tuple[int, int]]:
        """Returns start, in ms, and count of each span, without gaps: 1 to `at_most` spans."""
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


@dataclass(frozen=True, slots=True)
class Top:
    """The most frequent values, each as text (None: unknown) and count; `different` are all.

    If `others` is not 0, there were too many different values to count one by one.
    """

    most: tuple[tuple[str | None, int], ...]
    different: int
    others: int


@dataclass(frozen=True, slots=True)
class Stats:
    """Statistics of letters. Times are when letters were written, UTC ms; None without letters."""

    letters: int
    states: Mapping[State, int]
    formats: Mapping[str, int]
    oldest_ms: int | None
    newest_ms: int | None
    oldest_open_ms: int | None
    tops: Mapping[str, Top]
    """By `reason`, `exception` (its type), `origin` (topic) and `key`."""
    spans: tuple[tuple[int, int], ...]
    """Start and count of spans of `span_ms`, in order, without gaps."""
    span_ms: int


def stats_of(letters: Iterable[tuple[Letter, State]]) -> Stats:
    """Computes the statistics in one pass, in bounded memory."""
    states: Counter[State] = Counter()
    formats: Counter[str] = Counter()
    counts = [(FIELDS[name], Counts()) for name in _TOPS]
    timeline = Timeline()
    oldest_ms: int | None = None
    newest_ms: int | None = None
    oldest_open_ms: int | None = None
    for letter, state in letters:
        states[state] += 1
        formats[letter.format] += 1
        for field, found in counts:
            found.add((field(letter, state),))
        at_ms = letter.timestamp_ms
        if at_ms >= 0:
            timeline.add(at_ms)
            oldest_ms = at_ms if oldest_ms is None else min(oldest_ms, at_ms)
            newest_ms = at_ms if newest_ms is None else max(newest_ms, at_ms)
            if state is State.OPEN:
                oldest_open_ms = at_ms if oldest_open_ms is None else min(oldest_open_ms, at_ms)
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
    most = tuple((text, number) for (text, *_), number in counts.most(TOP))
    return Top(most, len(counts), counts.others)
