"""Does the model of a fleet say what consumers would, and is its truth the truth of it?"""

from __future__ import annotations

import pytest

from linear_retry.demo.fleet import FLEET, Calendar, Service, Week
from linear_retry.demo.fleet_lives import Episode, Said, said
from linear_retry.events import CircuitClosed, CircuitOpened, DeadLettered, ProbeFailed, Stopped
from linear_retry.journal.entry import Entry, read_entry
from linear_retry.records.dead_letter import parse

_WEEK = Week(1_795_000_000_000, 86_400_000)
_SEEDS = (1,)


def _told(service: Service, seed: int) -> tuple[Calendar, Said]:
    calendar = Calendar.of(service, _WEEK, seed)
    return calendar, said(service, calendar, _WEEK, seed, "fleet.dlq")


_TOLD = {(each.group, seed): _told(each, seed) for each in FLEET for seed in _SEEDS}
_ALL = pytest.mark.parametrize(("calendar", "told"), _TOLD.values(), ids=map(str, _TOLD))


def test_the_same_seed_throws_the_same_week() -> None:
    """What was shown once can be shown again; another seed is another week."""
    billing = FLEET[0]
    assert _told(billing, 1)[1] == _told(billing, 1)[1]
    assert _told(billing, 1)[1] != _told(billing, 2)[1]


@_ALL
def test_outages_do_not_overlap_and_begin_within_the_week(calendar: Calendar, told: Said) -> None:
    """Of each moment one thing is true: it is up, or down until a known end."""
    last_ms = _WEEK.begins_ms
    for outage in calendar.outages:
        assert last_ms <= outage.begins_ms < min(outage.ends_ms, _WEEK.ends_ms)
        assert outage is calendar.during(outage.begins_ms) is calendar.during(outage.ends_ms - 1)
        assert calendar.during(outage.ends_ms) is None
        last_ms = outage.ends_ms


@_ALL
def test_every_entry_can_be_read_back(calendar: Calendar, told: Said) -> None:
    """The journal's own reader takes each, and its numbers rise within a life."""
    read = [read_entry(record.value) for record in told.journal("journal")]
    assert list(told.entries) == read
    for entries in _lives(told).values():
        numbers = [entry.sequence for entry in entries]
        assert sorted(set(numbers)) == numbers
        assert sorted(entries, key=lambda entry: entry.at_ms) == entries


@_ALL
def test_attempts_fail_while_it_is_down_and_no_longer(calendar: Calendar, told: Said) -> None:
    """A probe that failed was due within an outage, or its message is bad; a recovery was not."""
    for entries in _lives(told).values():
        due_ms = None
        for entry in entries:
            match entry.event:
                case ProbeFailed(error=error):
                    assert due_ms is not None
                    assert "KeyError" in error or calendar.during(due_ms) is not None
                case CircuitClosed(outcome="recovered"):
                    assert due_ms is not None
                    assert calendar.during(due_ms) is None
            if isinstance(entry.event, CircuitOpened | ProbeFailed):
                due_ms = round(entry.event.retry_at.timestamp() * 1000)


@_ALL
def test_each_letter_can_be_read_back_and_is_in_the_journal(calendar: Calendar, told: Said) -> None:
    """The contract's own reader takes each, and says what the entry says."""
    entries = {
        entry.event.retry_id: entry.event
        for entry in told.entries
        if isinstance(entry.event, DeadLettered)
    }
    assert len(told.letters) == len(entries)
    for reason, record in told.letters:
        letter = parse(record.headers, record.key, record.value)
        event = entries[letter.retry_id]
        assert reason == letter.reason == event.reason
        assert (letter.destination, letter.original_offset) == (event.topic, event.offset)
        assert record.partition == letter.original_partition


def test_the_week_has_everything_that_can_go_wrong() -> None:
    """Outages longer than their strategy, members that die, entries that are missing."""
    everything = [told for _, told in _TOLD.values()]
    kinds = {episode.kind for told in everything for episode in told.episodes}
    assert {"closed", "close_missing", "stopped", "restarted", "open"} == kinds
    assert {"exhausted", "permanent"} == {r for told in everything for r, _ in told.letters}
    assert any(isinstance(entry.event, Stopped) for told in everything for entry in told.entries)


@_ALL
def test_each_circuit_that_opened_is_an_episode(calendar: Calendar, told: Said) -> None:
    """Its truth is told of each, and of nothing else."""
    opened = [
        Episode(entry.group, entry.instance, entry.sequence, entry.at_ms)
        for entry in told.entries
        if isinstance(entry.event, CircuitOpened)
    ]
    assert sorted(map(_place, opened)) == sorted(map(_place, told.episodes))
    ends = {outage.ends_ms for outage in calendar.outages}
    assert {each.ends_ms for each in told.episodes} <= ends | {None}


def _place(episode: Episode) -> tuple[str, int, int]:
    return episode.instance, episode.sequence, episode.opened_ms


def _lives(told: Said) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for entry in told.entries:
        found.setdefault(entry.instance, []).append(entry)
    return found
