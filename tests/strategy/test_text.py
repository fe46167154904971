"""Is what is written of an array of delays read back as that array?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from linear_retry.strategy.delays import MAX_DELAY_S, MAX_DELAYS, duration_ms, duration_text
from linear_retry.strategy.file import parse
from linear_retry.strategy.text import text

delays_ms = st.integers(0, MAX_DELAY_S * 1000)
runs = st.lists(st.tuples(delays_ms, st.integers(1, 20)), max_size=50)


@given(delays_ms)
def test_a_duration_is_read_back(whole_ms: int) -> None:
    """Whatever its units: the same milliseconds."""
    assert whole_ms == duration_ms(duration_text(whole_ms))


@given(runs, st.text(st.characters()))
def test_a_strategy_is_read_back(found: list[tuple[int, int]], description: str) -> None:
    """The same waits, with any words beside them: half a character of a pair too."""
    expected = tuple(delay_ms for delay_ms, times in found for _ in range(times))
    strategy = parse(text(expected, description), "proposed.json")
    assert expected == strategy.delays_ms
    assert description.isprintable() <= (description == strategy.description)


def test_the_longest_strategy_is_no_larger_than_a_file_may_be() -> None:
    """A thousand waits of which no two are equal, and as many words as anybody may write."""
    expected = tuple(MAX_DELAY_S * 1000 - 1 - each for each in range(MAX_DELAYS))
    assert expected == parse(text(expected, "\U0001f4a5" * 10_000), "proposed.json").delays_ms
