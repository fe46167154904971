"""Durations are written and read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.records.durations import delay_text, duration_ms, duration_text, read_delay_ms


@given(st.integers(0, 7 * 86_400_000))
def test_a_duration_is_read_back(whole_ms: int) -> None:
    """Whatever its units: the same milliseconds."""
    assert whole_ms == duration_ms(duration_text(whole_ms))


@pytest.mark.parametrize(
    ("delay_ms", "text"),
    [
        (0, "0s"),
        (1, "1ms"),
        (1500, "1500ms"),
        (90_000, "90s"),
        (300_000, "5m"),
        (1_800_000, "30m"),
        (3_600_000, "1h"),
        (5_400_000, "90m"),
        (86_400_000, "1d"),
    ],
)
def test_a_delay_is_written_in_its_largest_unit(delay_ms: int, text: str) -> None:
    """The largest unit that says it exactly."""
    assert text == delay_text(delay_ms)


@given(st.from_regex(r"[0-9]{0,4}(d|h|m|s|ms)", fullmatch=True) | st.text())
def test_a_delay_has_one_text(text: str) -> None:
    """Another text for the same delay is no delay: two topics would hold its records."""
    delay_ms = read_delay_ms(text)
    assert delay_ms is None or text == delay_text(delay_ms)


@pytest.mark.parametrize("text", ["60s", "24h", "05m", "0ms", "5", "m", "-5m", "1h30m", "٥m", ""])
def test_other_texts_are_no_delay(text: str) -> None:
    """Nor are those that a strategy file may have, or that differ by a zero."""
    assert read_delay_ms(text) is None
