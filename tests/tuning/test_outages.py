"""Bounds of outages are checked, and concurrent ones are found."""

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.errors import UsageError
from linear_retry.tuning.outages import Outages, concurrent

WEEK_MS = 7 * 24 * 3_600_000
spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12)


def test_what_is_longer_than_any_delay_has_no_end() -> None:
    """A week and more cannot be waited for at once, so it is not told from a longer time."""
    found = Outages.of([0, WEEK_MS - 1, WEEK_MS, WEEK_MS * 2], [5, WEEK_MS, WEEK_MS + 1, inf])
    assert [5, WEEK_MS, inf, inf] == list(found.upper_ms)
    assert [0, WEEK_MS - 1, WEEK_MS, WEEK_MS] == list(found.lower_ms)
    assert 2 == found.ended


def test_a_probe_in_the_same_millisecond_is_a_later_one() -> None:
    """Bounds that are equal leave one millisecond, not nothing."""
    assert [6.0] == list(Outages.of([5], [5]).upper_ms)


@pytest.mark.parametrize(
    ("lower_ms", "upper_ms"),
    [([1], []), ([5], [4]), ([-1], [4]), ([nan], [4]), ([1], [nan]), ([inf], [inf]), (1, 2)],
)
def test_what_are_no_bounds_is_refused(lower_ms: object, upper_ms: object) -> None:
    """Missing, crossed or negative bounds are a mistake of the caller's, never data."""
    with pytest.raises(UsageError):
        Outages.of(lower_ms, upper_ms)  # type: ignore[arg-type]


@given(spans)
def test_outages_that_overlap_are_one(found: list[tuple[int, int]]) -> None:
    """Two have the same number if and only if a chain of overlaps leads from one to the other."""
    opened, ended = [at for at, _ in found], [at + duration for at, duration in found]
    numbers = concurrent(opened, ended)
    linked = [{i} for i in range(len(found))]
    for i in range(len(found)):
        for j in range(len(found)):
            if opened[i] <= ended[j] and opened[j] <= ended[i]:
                union = linked[i] | linked[j]
                for each in union:
                    linked[each] = union
    for i in range(len(found)):
        assert linked[i] == {j for j in range(len(found)) if numbers[i] == numbers[j]}
