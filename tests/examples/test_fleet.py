"""The model of the fleet writes what consumers would write, and knows its true outages."""

import pytest

from examples.fleet.model import FLEET, Calendar, Service, Week
from examples.fleet.simulated_members import Episode, ServiceHistory, simulate
from linear_retry.events import CircuitClosed, CircuitOpened, DeadLettered, ProbeFailed, Stopped
from linear_retry.journal.entry import Entry, read_entry
from linear_retry.records.dead_letter import parse

_WEEK = Week(1_795_000_000_000, 86_400_000)
_SEEDS = (1,)


def _history(service: Service, seed: int) -> tuple[Calendar, ServiceHistory]:
    calendar = Calendar.of(service, _WEEK, seed)
    return calendar, simulate(service, calendar, _WEEK, seed, "fleet.dlq")


_HISTORIES = {(each.group, seed): _history(each, seed) for each in FLEET for seed in _SEEDS}
_ALL = pytest.mark.parametrize(
    ("calendar", "history"), _HISTORIES.values(), ids=map(str, _HISTORIES)
)


def test_the_same_seed_gives_the_same_week() -> None:
    """A run can be repeated; another seed gives another week."""
    billing = FLEET[0]
    assert _history(billing, 1)[1] == _history(billing, 1)[1]
    assert _history(billing, 1)[1] != _history(billing, 2)[1]


@_ALL
def test_outages_do_not_overlap_and_begin_within_the_week(
    calendar: Calendar, history: ServiceHistory
) -> None:
    """At each moment the dependency is up, or down until a known end."""
    last_ms = _WEEK.begins_ms
    for outage in calendar.outages:
        assert last_ms <= outage.begins_ms < min(outage.ends_ms, _WEEK.ends_ms)
        assert outage is calendar.during(outage.begins_ms) is calendar.during(outage.ends_ms - 1)
        assert calendar.during(outage.ends_ms) is None
        last_ms = outage.ends_ms


@_ALL
def test_every_entry_can_be_read_back(calendar: Calendar, history: ServiceHistory) -> None:
    """The journal's own reader accepts each, and an instance's sequence numbers rise."""
    read = [read_entry(record.value) for record in history.journal("journal")]
    assert list(history.entries) == read
    for entries in _by_instance(history).values():
        numbers = [entry.sequence for entry in entries]
        assert sorted(set(numbers)) == numbers
        assert sorted(entries, key=lambda entry: entry.at_ms) == entries


@_ALL
def test_attempts_fail_while_it_is_down_and_no_longer(
    calendar: Calendar, history: ServiceHistory
) -> None:
    """A probe that failed was due within an outage, or its message is bad; a recovery was not."""
    for entries in _by_instance(history).values():
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
def test_each_letter_can_be_read_back_and_is_in_the_journal(
    calendar: Calendar, history: ServiceHistory
) -> None:
    """The library's own parser accepts each, and agrees with the journal entry."""
    entries = {
        entry.event.retry_id: entry.event
        for entry in history.entries
        if isinstance(entry.event, DeadLettered)
    }
    assert len(history.letters) == len(entries)
    for reason, record in history.letters:
        letter = parse(record.headers, record.key, record.value)
        event = entries[letter.retry_id]
        assert reason == letter.reason == event.reason
        assert (letter.destination, letter.original_offset) == (event.topic, event.offset)
        assert record.partition == letter.original_partition


def test_the_week_has_everything_that_can_go_wrong() -> None:
    """Outages longer than their strategy, members that die, entries that are missing."""
    everything = [history for _, history in _HISTORIES.values()]
    kinds = {episode.kind for history in everything for episode in history.episodes}
    assert {"closed", "close_missing", "stopped", "restarted", "open"} == kinds
    assert {"exhausted", "permanent"} == {r for history in everything for r, _ in history.letters}
    assert any(
        isinstance(entry.event, Stopped) for history in everything for entry in history.entries
    )


@_ALL
def test_each_circuit_that_opened_is_an_episode(
    calendar: Calendar, history: ServiceHistory
) -> None:
    """Each opened circuit has a true episode, and nothing else has one."""
    opened = [
        Episode(entry.group, entry.instance, entry.sequence, entry.at_ms)
        for entry in history.entries
        if isinstance(entry.event, CircuitOpened)
    ]
    assert sorted(map(_place, opened)) == sorted(map(_place, history.episodes))
    ends = {outage.ends_ms for outage in calendar.outages}
    assert {each.ends_ms for each in history.episodes} <= ends | {None}


def _place(episode: Episode) -> tuple[str, int, int]:
    return episode.instance, episode.sequence, episode.opened_ms


def _by_instance(history: ServiceHistory) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for entry in history.entries:
        found.setdefault(entry.instance, []).append(entry)
    return found
