"""Letters are counted right, one by one and in summary."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.dlq.letters.letter import Letter, State, read_letter
from linear_retry.dlq.stats import FIELDS, SPANS_AT_MOST, TOP, Counts, Timeline, count, stats_of
from linear_retry.records.text import ErrorText
from tests.dlq.sample_letters import RECORDS, our_letter, our_records

_LETTERS = st.lists(
    st.tuples((our_records() | RECORDS).map(read_letter), st.sampled_from(State)), max_size=12
)


@given(_LETTERS, st.lists(st.sampled_from(sorted(FIELDS)), min_size=1, max_size=3, unique=True))
def test_every_letter_is_in_one_group(
    letters: list[tuple[Letter, State]], fields: list[str]
) -> None:
    """The counts add up, and are those of the fields, the largest first."""
    expected = Counter(
        tuple(FIELDS[name](letter, state) for name in fields) for letter, state in letters
    )
    found = count(letters, fields).most()
    assert expected == dict(found)
    assert sorted((number for _, number in found), reverse=True) == [number for _, number in found]


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("exception", "billing.CardRefused"),
        ("message", "refused"),
        ("origin", "orders"),
        ("partition", "orders[3]"),
        ("reason", "exhausted"),
        ("group", "billing"),
        ("state", "open"),
        ("format", "linear-retry"),
        ("key", "ann"),
        ("day", "2026-11-21"),
        ("hour", "2026-11-21 09"),
    ],
)
def test_what_a_field_is(field: str, expected: str) -> None:
    """Each name that `--group-by` takes."""
    letter = our_letter(error=ErrorText("billing.CardRefused", "refused", None))
    assert expected == FIELDS[field](letter, State.OPEN)


def test_of_too_many_groups_the_rest_is_counted_together() -> None:
    """Memory is bounded whatever the keys are, and no letter is forgotten."""
    counts = Counts(different_at_most=2)
    for name in ("a", "b", "c", "a", "d", "b", "a"):
        counts.add((name,))
    assert ([(("a",), 3), (("b",), 2)], 2) == (counts.most(), counts.others)


@given(_LETTERS)
def test_stats_are_of_all_letters(letters: list[tuple[Letter, State]]) -> None:
    """States and formats add up to all; so do the tops where nothing is left out."""
    stats = stats_of(letters)
    assert len(letters) == stats.letters == sum(stats.states.values())
    assert len(letters) == sum(stats.formats.values())
    for top in stats.tops.values():
        shown = sum(number for _, number in top.most)
        assert shown == len(letters) if top.different <= TOP else shown < len(letters)


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=50), st.integers(1, SPANS_AT_MOST))
def test_a_timeline_has_everything_in_its_span(times_ms: list[int], at_most: int) -> None:
    """As many as there were, in spans of one length without gaps, no more than were asked for."""
    timeline = Timeline()
    for at_ms in times_ms:
        timeline.add(at_ms)
    spans = timeline.spans(at_most)
    length_ms = timeline.length_ms
    assert 1 <= len(spans) <= at_most
    first_ms = spans[0][0]
    assert [first_ms + number * length_ms for number in range(len(spans))] == [
        from_ms for from_ms, _ in spans
    ]
    expected = Counter(at_ms // length_ms * length_ms for at_ms in times_ms)
    assert expected == {from_ms: number for from_ms, number in spans if number}


def test_a_timeline_is_bounded() -> None:
    """A letter a minute for a month: the spans become longer before they become too many."""
    timeline = Timeline()
    for minute in range(30 * 24 * 60):
        timeline.add(minute * 60_000)
    spans = timeline.spans(SPANS_AT_MOST)
    assert (7 * 86_400_000, 5) == (timeline.length_ms, len(spans))
    assert 30 * 24 * 60 == sum(number for _, number in spans)


def test_letters_without_a_time_are_counted_all_the_same() -> None:
    """They are in the totals, and in no span."""
    stats = stats_of([(our_letter()._replace(timestamp_ms=-1), State.OPEN)])
    assert (1, (), None, None) == (stats.letters, stats.spans, stats.oldest_ms, stats.newest_ms)
