"""Members whose clocks disagree are found by what both have seen."""

import numpy as np
import pytest

from linear_retry.strategy.tuning.outages import ClocksApart, Numbers, clocks_apart

HOUR_MS = 3_600_000.0
WEEK_MS = 168 * HOUR_MS


def _outages(seed: int, count: int) -> Numbers:
    return np.sort(np.random.default_rng(seed).uniform(0, 10 * WEEK_MS, count))


def _seen(outages: Numbers, seed: int, clock_ms: float = 0.0) -> Numbers:
    """Within a second of its beginning, by this member's clock."""
    return outages + clock_ms + np.random.default_rng(seed).uniform(0, 1000, len(outages))


@pytest.mark.parametrize("clock_ms", [-HOUR_MS, 12_000.0, HOUR_MS])
def test_an_hour_apart(clock_ms: float) -> None:
    """The bug: three members an hour apart saw each outage three times, and delays were proposed
    from three times as many outages as there were."""
    outages = _outages(1, 40)
    found = clocks_apart({"a": _seen(outages, 2), "b": _seen(outages, 3, clock_ms)})
    assert found is not None
    names = ("b", "a") if clock_ms > 0 else ("a", "b")
    assert (names, 40) == ((found.ahead, found.behind), found.shared)
    assert found.by_ms == pytest.approx(abs(clock_ms), abs=1000)


def test_the_two_that_differ_most_are_named() -> None:
    """Of three members, the first and the last; not all see every outage, or at once."""
    outages = _outages(1, 60)
    seen = {
        "a": np.concatenate([_seen(outages, 2), _seen(outages, 3) + 20_000]),
        "b": _seen(outages[10:], 4, HOUR_MS),
        "c": _seen(outages[::2], 5, 2 * HOUR_MS),
    }
    found = clocks_apart(seen)
    assert isinstance(found, ClocksApart)
    assert ("c", "a", 30) == (found.ahead, found.behind, found.shared)


def test_clocks_that_agree() -> None:
    """Together in most outages; outages each full hour coincide at every hour, and at none less."""
    outages = _outages(1, 40)
    assert clocks_apart({"a": _seen(outages, 2), "b": _seen(outages, 3)}) is None
    hourly = HOUR_MS * np.arange(100.0)
    assert clocks_apart({"a": _seen(hourly, 2), "b": _seen(hourly[50:], 3)}) is None


def test_members_that_saw_other_outages_say_nothing() -> None:
    """Nor do few, nor one member, nor none."""
    assert clocks_apart({"a": _outages(1, 200), "b": _outages(2, 200)}) is None
    few = _outages(3, 4)
    assert clocks_apart({"a": few, "b": few + HOUR_MS}) is None
    assert clocks_apart({"a": _outages(1, 200)}) is None
    assert clocks_apart({}) is None
