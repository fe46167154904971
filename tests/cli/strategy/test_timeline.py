"""The drawing of an outage is to scale, and fits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.cli.strategy.timeline import timeline
from linear_retry.retry.policy import OnExhausted, Policy
from linear_retry.strategy.simulation import Simulator
from linear_retry.strategy.strategy import Strategy
from tests.strategy.test_schedule import attempts_ms, delays_ms, of_ms


def drawn(
    policy: Policy, outage_ms: int, *, attempt_ms: int = 0, width: int = 76
) -> tuple[str, str, str, str]:
    """The bar, the two marks, the legend."""
    bar, early, late, legend = timeline(
        Simulator(policy, attempt_ms).through(outage_ms), width
    ).plain.split("\n")
    return bar, early, late, legend


def test_a_recovery() -> None:
    """The outage, the attempts in it, the idle time after it, and both their ends."""
    bar, early, late, legend = drawn(Policy(Strategy([0.5, 5.5, 30, 60])), 48_000, width=96)
    assert "2▒▒▒▒▒×" + "▒" * 29 + "×" + "▒" * 11 + "░" * 47 + "✓" == bar
    assert "48s dependency back ┘".rjust(49) == early
    assert "1m36s success ┘" == late.strip()
    assert legend.startswith("▒ down   ░ idle   × fails")


def test_a_dead_letter() -> None:
    """Where it is given up, and the end of the outage, which nobody sees."""
    bar, early, late, _ = drawn(Policy(Strategy([24])), 76_000)
    assert "×" + "▒" * 23 + "†" + "▒" * 51 == bar
    assert "24s dead-lettered ┘".rjust(25) == early
    assert "1m16s dependency back ┘" == late.strip()


def test_back_at_once() -> None:
    """Both ends in one cell are two marks, one above the other."""
    _, early, late, _ = drawn(Policy(Strategy([60])), 60_000)
    assert ("1m dependency back ┘", "1m success ┘") == (early.strip(), late.strip())
    assert 76 == len(early) == len(late)


def test_a_failure_that_outlasts_the_outage() -> None:
    """An attempt may fail after the dependency is back; then it is given up at the very end."""
    bar, early, late, _ = drawn(Policy(Strategy([]), "stop"), 38_000, attempt_ms=76_000)
    assert "×" + "▒" * 37 + "░" * 37 + "†" == bar
    assert "38s dependency back ┘".rjust(39) == early
    assert "1m16s stopped ┘" == late.strip()


def test_more_attempts_than_cells() -> None:
    """A digit says how many attempts a cell holds, and + that they are ten or more."""
    bar, *_ = drawn(Policy(Strategy([{"every": "500ms", "times": 76}, 1]), "repeat"), 76_000)
    assert "2" * 38 + "×" * 37 + "✓" == bar
    bar, *_ = drawn(Policy(Strategy(["1ms"]), "repeat"), 315_360_000_000)
    assert "+" * 75 + "✓" == bar


@given(
    delays_ms,
    attempts_ms,
    st.integers(1, 80_000) | st.integers(1, 315_360_000_000),
    st.sampled_from(["repeat", "stop"]),
    st.integers(76, 120),
)
def test_it_fits(
    waits_ms: list[int], attempt_ms: int, outage_ms: int, on_exhausted: OnExhausted, width: int
) -> None:
    """Four lines, none longer than the width; one end in the bar; the later mark below it."""
    policy = of_ms([*waits_ms, 1], on_exhausted)
    bar, early, late, legend = drawn(policy, outage_ms, attempt_ms=attempt_ms, width=width)
    assert width == len(bar)
    assert max(len(early), len(late), len(legend)) <= width
    assert 1 == bar.count("✓") + bar.count("†")
    assert late.endswith("┘")
    assert len(late) == width


@pytest.mark.parametrize("style", ["red", "yellow", "bold green", "bold white on red"])
def test_the_bar_has_colours(style: str) -> None:
    """Outage, idle time, attempts and the end are distinguished by colour too."""
    text = timeline(Simulator(Policy(Strategy([1, 5, 30]))).through(10_000), 76)
    assert style in {span.style for span in text.spans}
