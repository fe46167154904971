"""Which topics a subscription matches, and which of those are not for the handler."""

import re
from ast import literal_eval

import pytest

from linear_retry.consumer.settings.topics import refuse_retry_topics, subscribed
from linear_retry.errors import ConfigurationError

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
