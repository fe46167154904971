"""What a consumer reads, and as whom."""

from typing import Any

import pytest

from linear_retry import ConfigurationError, RetryTopics
from linear_retry.consumer.settings.line import line_config

_RETRIES = RetryTopics("orders.billing.retry", strategy=["5m"])
_CONFIG = {"group.id": "billing", "group.instance.id": "pod-1", "auto.offset.reset": "latest"}


def test_the_retry_line_is_another_group() -> None:
    """In one group each rebalance of one line would stop the other; one instance id for both would
    be fenced. It begins at the start: `latest` would skip what was sent before it first started."""
    line = line_config(_CONFIG, _RETRIES, "dead-letter")
    assert {
        "fetch.wait.max.ms": 500,
        "group.id": "billing.retry",
        "group.instance.id": "pod-1.retry",
        "auto.offset.reset": "earliest",
    } == line.config
    assert _RETRIES.subscription == line.topics


def test_both_lines_have_one_name() -> None:
    """In letters, the journal and `retry-group-id`: a message goes from one line to the other."""
    live, retry = (line_config(_CONFIG, each, "dead-letter") for each in (["orders"], _RETRIES))
    assert "billing" == live.live_group("billing") == retry.live_group("billing.retry")
    assert "shop.retry" == live.live_group("shop.retry")


@pytest.mark.parametrize("when", ["stop", "repeat", RetryTopics("another", strategy=[1])])
def test_the_retry_line_sends_to_its_own_topics(when: Any) -> None:
    """Anything else would end the sequence, or mix two of them."""
    with pytest.raises(ConfigurationError, match="on_exhausted"):
        line_config(_CONFIG, _RETRIES, when)
