"""The names of retry topics."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.records.topics.names import delay_of, is_topic_name, retry_topic

_LONGEST_MS = 7 * 86_400_000
_DELAYS = st.integers(0, _LONGEST_MS) | st.sampled_from([1, 1000, 60_000, 3_600_000]).flatmap(
    lambda unit_ms: st.integers(0, _LONGEST_MS // unit_ms).map(lambda count: count * unit_ms)
)


@given(_DELAYS)
def test_a_topic_says_its_delay(delay_ms: int) -> None:
    """What is read from a name is what it was made of, so two delays never share a topic."""
    topic = retry_topic("orders.billing.retry", delay_ms)
    assert is_topic_name(topic)
    assert delay_ms == delay_of(topic, "orders.billing.retry")


@pytest.mark.parametrize("topic", ["retry.5m", "orders.retry", "orders.retryx.5m", "orders.retry."])
def test_other_topics_are_not_of_the_prefix(topic: str) -> None:
    """A topic belongs to a prefix only by a dot and a delay after it."""
    assert delay_of(topic, "orders.retry") is None
