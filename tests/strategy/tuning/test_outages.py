"""Bounds of outages are checked."""

from math import inf, nan

import pytest

from linear_retry.errors import UsageError
from linear_retry.strategy.tuning.outages import Outages

WEEK_MS = 7 * 24 * 3_600_000


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


def test_they_are_split_by_their_order() -> None:
    """The first ones, to learn from, and the others, to compare on."""
    first, others = Outages.of([0, 5, 6], [9, inf, 9]).split(2)
    assert ([0, 5], [6]) == (list(first.lower_ms), list(others.lower_ms))
    assert (2, 1) == (len(first), first.ended)
