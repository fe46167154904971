"""The episodes of a journal's entries by plain Python, one entry after another.

The same law as `linear_retry.spark.history.episodes`, in plain Python, one entry at a time.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from linear_retry.events import (
    Assigned,
    CircuitClosed,
    CircuitOpened,
    DeadLettered,
    DeadLetterFailed,
    HandedOver,
    LimitReached,
    Lost,
    ProbeFailed,
    RetriedNow,
    Revoked,
    SentToRetry,
    Stopped,
)
from linear_retry.journal.entry import Entry
from linear_retry.scope import Partition, Scope

Transition = (
    CircuitOpened | ProbeFailed | RetriedNow | CircuitClosed | DeadLetterFailed | LimitReached
)
Ending = DeadLettered | SentToRetry | HandedOver
Row = tuple[object, ...]
_Life = list[Entry]
_Owners = dict[tuple[str, Partition], tuple[int, str]]


@dataclass
class _Episode:
    """What is known of one, while its entries are read."""

    life: _Life
    scope: Scope
    first: int
    entries: list[Entry] = field(default_factory=list)
    endings: list[Ending] = field(default_factory=list)
    until: int | None = None

    @property
    def events(self) -> list[object]:
        return [each.event for each in self.entries]

    @property
    def closed(self) -> Entry | None:
        last = self.entries[-1]
        return last if isinstance(last.event, CircuitClosed) else None


def expected_episodes(entries: Iterable[Entry]) -> list[Row]:
    """In the order of their columns; `entries` in the order in which they lie in the topic."""
    lives: dict[tuple[str, str, str], dict[int, Entry]] = defaultdict(dict)
    for entry in entries:
        lives[entry.group, entry.member, entry.instance].setdefault(entry.sequence, entry)
    ends: dict[tuple[str, str], int] = defaultdict(int)
    for (group, member, _), life in lives.items():
        ends[group, member] = max(ends[group, member], max(e.at_ms for e in life.values()))
    owners = _owners(entry for life in lives.values() for entry in life.values())
    found = []
    for (group, member, _), life in lives.items():
        ordered = [life[sequence] for sequence in sorted(life)]
        for episode in _episodes(ordered):
            found.append(_row(episode, ends[group, member], owners))
    return found


def _owners(entries: Iterable[Entry]) -> _Owners:
    """When and to which instance each partition of a group was assigned last."""
    found: _Owners = {}
    for entry in entries:
        if isinstance(entry.event, Assigned):
            for partition in entry.event.partitions:
                place = entry.group, partition
                assigned = entry.at_ms, entry.instance
                found[place] = max(found.get(place, assigned), assigned)
    return found


def _episodes(life: _Life) -> list[_Episode]:
    scopes = [e.event.scope for e in life if isinstance(e.event, Transition)]
    has_topic = any(scope.topic is not None for scope in scopes)
    has_partition = any(scope.partition is not None for scope in scopes)
    found: list[_Episode] = []
    current: dict[Scope, _Episode] = {}
    for entry in life:
        event = entry.event
        if isinstance(event, Ending):
            place = event.topic if has_topic else None, event.partition if has_partition else None
            episode = current.get(Scope(*place))
            if episode is not None and episode.closed is None:
                episode.endings.append(event)
        elif isinstance(event, Transition):
            episode = current.get(event.scope)
            if episode is None or episode.closed or isinstance(event, CircuitOpened):
                if episode is not None:
                    episode.until = episode.until or entry.sequence
                episode = _Episode(life, event.scope, entry.sequence)
                current[event.scope] = episode
                found.append(episode)
            episode.entries.append(entry)
    return found


def _row(episode: _Episode, member_ends_ms: int, owners: _Owners) -> Row:
    first, last, closed = episode.entries[0], episode.entries[-1], episode.closed
    opened = first.event if isinstance(first.event, CircuitOpened) else None
    close = closed.event if closed and isinstance(closed.event, CircuitClosed) else None
    lower_ms, upper_ms = _bounds(episode)
    return (
        *(first.group, first.member, first.instance, episode.scope.topic, episode.scope.partition),
        episode.first,
        last.sequence,
        _kind(episode, member_ends_ms, owners),
        first.at_ms if opened else None,
        last.at_ms,
        closed.at_ms if closed else None,
        None if closed else _next_ms(last),
        close.outcome if close else None,
        close.open_s if close else None,
        *((opened.topic, opened.partition, opened.offset) if opened else (None, None, None)),
        opened.error if opened else None,
        _type(opened.error) if opened else None,
        _probes(episode),
        sum(isinstance(event, DeadLettered) for event in episode.endings),
        sum(isinstance(event, DeadLetterFailed) for event in episode.events),
        _missing(episode),
        lower_ms,
        upper_ms,
        0,  # its records have the time of its entries
    )


def _kind(episode: _Episode, member_ends_ms: int, owners: _Owners) -> str:
    if not isinstance(episode.events[0], CircuitOpened):
        return "left_censored"
    if episode.closed:
        return "closed"
    if episode.until:
        return "close_missing"
    if any(isinstance(e.event, Stopped) and e.sequence > episode.first for e in episode.life):
        return "stopped"
    if member_ends_ms > max(entry.at_ms for entry in episode.life):
        return "restarted"
    return "taken_over" if _is_taken(episode, owners) else "open"


def _is_taken(episode: _Episode, owners: _Owners) -> bool:
    first, last = episode.entries[0], episode.entries[-1]
    assert isinstance(first.event, CircuitOpened)
    held = first.event.topic, first.event.partition
    at_ms, instance = owners.get((first.group, held), (0, first.instance))
    return instance != first.instance and at_ms > last.at_ms


def _missing(episode: _Episode) -> int:
    """How many numbers no entry has, from its first to its last, or to where it must have ended."""
    end = episode.until or episode.life[-1].sequence
    if episode.closed:
        end = episode.closed.sequence
    there = {entry.sequence for entry in episode.life}
    return sum(number not in there for number in range(episode.first, end))


def _due_ms(episode: _Episode, index: int) -> int | None:
    """When the attempt began that the entry tells the end of; None: the entry before is missing."""
    if index == 0:
        return None
    return min(_next_ms(episode.entries[index - 1]), episode.entries[index].at_ms)


def _next_ms(entry: Entry) -> int:
    """When the next attempt begins, as the entry says."""
    if isinstance(entry.event, RetriedNow):
        return entry.at_ms
    return _ms(entry.event.retry_at.timestamp())  # type: ignore[union-attr]


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _failed(episode: _Episode) -> list[int]:
    """The entries that tell of an attempt that failed, but for the first."""
    events = episode.events
    return [
        index
        for index, event in enumerate(events)
        if isinstance(event, ProbeFailed)
        or (
            isinstance(event, LimitReached)
            and index > 0
            and isinstance(events[index - 1], ProbeFailed | LimitReached)
        )
    ]


def _probes(episode: _Episode) -> list[Row]:
    found: list[Row] = []
    for index in _failed(episode):
        entry = episode.entries[index]
        event = entry.event
        assert isinstance(event, ProbeFailed | LimitReached)
        due_ms = _due_ms(episode, index)
        found.append((entry.sequence, due_ms, entry.at_ms, event.failures, event.error))
    return found


def _bounds(episode: _Episode) -> tuple[int | None, int | None]:
    events, closed = episode.events, episode.closed
    nothing = None, None
    if not isinstance(events[0], CircuitOpened) or _missing(episode):
        return nothing
    if len(events) > 1 and isinstance(events[1], DeadLetterFailed | LimitReached):
        return nothing
    opened_ms = episode.entries[0].at_ms
    starts = [_due_ms(episode, index) for index in _failed(episode)]
    upper_ms = None
    if closed and isinstance(closed.event, CircuitClosed):
        due_ms = _due_ms(episode, len(events) - 1)
        exhausted = any(
            not isinstance(event, DeadLettered) or event.reason == "exhausted"
            for event in episode.endings
        )
        gave_up = ("dead-lettered", "sent-to-retry", "handed-over")
        if closed.event.outcome == "recovered":
            upper_ms = (closed.at_ms if _moved(episode) else due_ms or 0) - opened_ms
        elif closed.event.outcome in gave_up and exhausted:
            starts += [] if isinstance(events[-2], DeadLetterFailed) else [due_ms]
    lower_ms = max((start - opened_ms for start in starts if start is not None), default=0)
    lower_ms = max(lower_ms, 0)
    if upper_ms is not None and upper_ms < lower_ms:
        return nothing
    return lower_ms, upper_ms


def _moved(episode: _Episode) -> bool:
    """Partitions were taken away since the last wait began: the held message too, it may be."""
    since, until = episode.entries[-2].sequence, episode.entries[-1].sequence
    return any(
        isinstance(entry.event, Revoked | Lost) and since < entry.sequence < until
        for entry in episode.life
    )


def _type(error: str) -> str | None:
    found = re.match(r"<?([A-Za-z_][A-Za-z0-9_.]*)", error)
    return found.group(1) if found else None
