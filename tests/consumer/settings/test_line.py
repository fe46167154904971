"""What a consumer reads, and as whom."""

import re
from ast import literal_eval
from typing import Any

import pytest

from linear_retry import ConfigurationError, RetryTopics
from linear_retry.consumer.settings.line import line_config, refuse_retry_topics, subscribed

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


_EXISTING = ["orders", "orders.billing.retry.5m", "orders.daily.1d", "shipping"]


@pytest.mark.parametrize(
    ("topics", "ignored", "expected"),
    [
        (["orders"], "", _EXISTING[:1]),
        (["^orders", "shipping"], "", _EXISTING),
        (["^orders"], r"retry\.[0-9]+(ms|s|m|h|d)$", ["orders", "orders.daily.1d"]),
        (["^orders"], "daily,^orders$,", ["orders.billing.retry.5m"]),
    ],
)
def test_what_is_subscribed_to(topics: list[str], ignored: str, expected: list[str]) -> None:
    """Names, and what the patterns match and `topic.blacklist` does not, as in librdkafka."""
    assert expected == subscribed(topics, _EXISTING, ignored)


def test_a_pattern_that_matches_retry_topics() -> None:
    """A group with `^orders` handled another group's retries at once, as new messages. The remedy
    is one that librdkafka takes."""
    topics = ["^orders"]
    with pytest.raises(ConfigurationError, match=r"topics orders\.billing\.retry\.5m: ") as caught:
        refuse_retry_topics(topics, subscribed(topics, _EXISTING), lambda _: False)
    (remedy,) = re.findall("{.*}$", str(caught.value))
    ignored = literal_eval(remedy)["topic.blacklist"]
    refuse_retry_topics(topics, subscribed(topics, _EXISTING, ignored), lambda _: False)


def test_retry_topics_that_are_named() -> None:
    """Another group's may be read by whoever names it; those of its own prefix never, whatever
    their delay."""
    topics = ["orders.billing.retry.5m"]
    refuse_retry_topics(topics, topics, lambda _: False)
    with pytest.raises(ConfigurationError, match="handled at once, as new messages"):
        refuse_retry_topics(topics, topics, lambda _: True)
