"""The outages of the last days, from the journal, and their places on a line of time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import Literal, TypeAlias

from linear_retry.journal.entry import Entry
from linear_retry.journal.episodes import Circuit, Episodes
from linear_retry.journal.outages import Outage, group_episodes
from linear_retry.records.durations import duration_text

Kind: TypeAlias = Literal["open", "given-up", "left-line", "unknown", "recovered"]
"""How an outage ended; of several, the first of these that one of them has."""

KINDS: dict[Kind, str] = {
    "open": "open now",
    "given-up": "messages were given up",
    "left-line": "messages left the line",
    "unknown": "no end recorded",
    "recovered": "recovered",
}
_ORDER = tuple(KINDS)
_LANES = 30
_NARROWEST = 0.4
"""Per cent of the width: what is shorter is drawn so wide."""
_STEPS_S = (300, 900, 3600, 3 * 3600, 6 * 3600, 86_400, 7 * 86_400)
_MOST_TICKS = 8


@dataclass(frozen=True, slots=True)
class Bar:
    """Outages that are drawn as one; in per cent of the width."""

    x: float
    width: float
    kind: Kind
    title: str


@dataclass(frozen=True, slots=True)
class Lane:
    """The outages of a group."""

    group: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Tick:
    """A time below the line."""

    x: float
    text: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """Lanes by the time that they were open, the longest first; `left_out` counts the others."""

    lanes: tuple[Lane, ...]
    ticks: tuple[Tick, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class _Span:
    """The time that is drawn."""

    from_ms: int
    until_ms: int

    def share(self, at_ms: int) -> float:
        within_ms = min(max(at_ms, self.from_ms), self.until_ms) - self.from_ms
        return 100 * within_ms / (self.until_ms - self.from_ms)


def kind_of(outage: Outage) -> Kind:
    """Returns how it ended."""
    if outage.is_open:
        return "open"
    if outage.given_up:
        return "given-up"
    if outage.left_line:
        return "left-line"
    return "recovered" if outage.recovered else "unknown"


def length_ms(outage: Outage, now_ms: int) -> int:
    """Returns how long it lasted, or has until now."""
    return max(now_ms if outage.is_open else outage.ended_ms, outage.began_ms) - outage.began_ms


def timeline(outages: Iterable[Outage], from_ms: int, until_ms: int) -> Timeline:
    """Places those of the time from `from_ms` to `until_ms`, which is now."""
    span = _Span(from_ms, until_ms)
    by_group: dict[str, list[Outage]] = {}
    for each in outages:
        if each.is_open or each.ended_ms >= from_ms:
            by_group.setdefault(each.group, []).append(each)
    ranked = sorted(by_group, key=lambda group: (-_total_ms(by_group[group], until_ms), group))
    lanes = (Lane(group, tuple(_bars(by_group[group], span))) for group in ranked[:_LANES])
    return Timeline(tuple(lanes), tuple(_ticks(span)), len(ranked[_LANES:]))


def _total_ms(outages: Sequence[Outage], now_ms: int) -> int:
    return sum(length_ms(each, now_ms) for each in outages)


def _bars(outages: Sequence[Outage], span: _Span) -> Iterator[Bar]:
    """Bars that would touch are one: no more than a few hundred, however many outages."""
    together: list[Outage] = []
    until = 0.0
    for each in sorted(outages, key=lambda one: one.began_ms):
        x = span.share(each.began_ms)
        if together and x > until:
            yield _bar(together, span)
            together = []
        end = span.share(each.began_ms + length_ms(each, span.until_ms))
        until = max(until if together else 0.0, end, x + _NARROWEST)
        together.append(each)
    if together:
        yield _bar(together, span)


def _bar(outages: Sequence[Outage], span: _Span) -> Bar:
    ends_ms = max(each.began_ms + length_ms(each, span.until_ms) for each in outages)
    x = min(span.share(outages[0].began_ms), 100 - _NARROWEST)
    width = max(span.share(ends_ms) - x, _NARROWEST)
    kind = min(map(kind_of, outages), key=_ORDER.index)
    return Bar(round(x, 3), round(width, 3), kind, _title(outages, kind, span.until_ms))


def _title(outages: Sequence[Outage], kind: Kind, now_ms: int) -> str:
    # A garbled entry may say that it began before there was any calendar.
    began = datetime.fromtimestamp(max(outages[0].began_ms, 0) / 1000, UTC)
    count = "" if len(outages) == 1 else f"{len(outages)} outages from "
    open_ms = _total_ms(outages, now_ms) // 1000 * 1000
    return f"{count}{began:%Y-%m-%d %H:%M} UTC, open for {duration_text(open_ms)}: {KINDS[kind]}"


def _ticks(span: _Span) -> Iterator[Tick]:
    length_s = (span.until_ms - span.from_ms) / 1000
    step_s = next((each for each in _STEPS_S if length_s / each <= _MOST_TICKS), _STEPS_S[-1])
    form = "%H:%M" if step_s < 86_400 else "%b %d"
    first = -(-span.from_ms // (step_s * 1000))
    for number in range(first, span.until_ms // (step_s * 1000) + 1):
        at_ms = number * step_s * 1000
        moment = datetime.fromtimestamp(at_ms / 1000, UTC)
        yield Tick(round(span.share(at_ms), 3), f"{moment:{form}}")


@dataclass(frozen=True, slots=True)
class Known:
    """The outages, the earliest first, and a sentence for each reason why some may be missing."""

    outages: list[Outage]
    troubles: tuple[str, ...]


class History:
    """Collects what the one reader of the journal reads; any thread may ask for the outages."""

    def __init__(self, open_now: Callable[[], Collection[Circuit]]) -> None:
        """`open_now` returns the circuits that are open, as the state of their group says."""
        self._open_now = open_now
        self._lock = Lock()
        self._episodes = Episodes()

    def begin(self) -> None:
        """Forgets all, before the journal is read from its beginning once more."""
        with self._lock:
            self._episodes = Episodes()

    def take(self, entry: Entry) -> None:
        """Adds an entry of the journal; each must come once."""
        with self._lock:
            self._episodes.take(entry)

    def since(self, since_ms: int) -> Known:
        """Returns the outages that lasted until then or longer."""
        open_now = self._open_now()
        with self._lock:
            journal = self._episodes.since(since_ms, open_now)
            is_full = self._episodes.is_full
        troubles = ["Of the journal, only the latest 20,000 episodes are kept."] if is_full else []
        return Known(group_episodes(journal), tuple(troubles))
