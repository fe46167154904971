"""The names of retry topics."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.records.topics.names import is_topic_name
from linear_retry.records.topics.retry_topics import (
    delay_of,
    delay_text,
    read_delay_ms,
    retry_topic,
)

_LONGEST_MS = 7 * 86_400_000
_DELAYS = st.integers(0, _LONGEST_MS) | st.sampled_from([1, 1000, 60_000, 3_600_000]).flatmap(
    lambda unit_ms: st.integers(0, _LONGEST_MS // unit_ms).map(lambda count: count * unit_ms)
)


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


@given(_DELAYS)
def test_a_topic_says_its_delay(delay_ms: int) -> None:
    """What is read from a name is what it was made of, so two delays never share a topic."""
    topic = retry_topic("orders.billing.retry", delay_ms)
    assert is_topic_name(topic)
    assert delay_ms == delay_of(topic, "orders.billing.retry")


@given(st.from_regex(r"[0-9]{0,4}(d|h|m|s|ms)", fullmatch=True) | st.text())
def test_a_delay_has_one_text(text: str) -> None:
    """Another text for the same delay is no delay: two topics would hold its records."""
    delay_ms = read_delay_ms(text)
    assert delay_ms is None or text == delay_text(delay_ms)


@pytest.mark.parametrize("text", ["60s", "24h", "05m", "0ms", "5", "m", "-5m", "1h30m", "٥m", ""])
def test_other_texts_are_no_delay(text: str) -> None:
    """Nor are those that a strategy file may have, or that differ by a zero."""
    assert read_delay_ms(text) is None


@pytest.mark.parametrize("topic", ["retry.5m", "orders.retry", "orders.retryx.5m", "orders.retry."])
def test_other_topics_are_not_of_the_prefix(topic: str) -> None:
    """A topic belongs to a prefix only by a dot and a delay after it."""
    assert delay_of(topic, "orders.retry") is None
