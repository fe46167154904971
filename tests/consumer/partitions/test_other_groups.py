"""What another group has sent to retry topics is warned of, once."""

import pytest

from linear_retry.consumer.partitions.other_groups import NewRetryTopics, OtherGroupsRetries
from linear_retry.events import PassedOver, Stopped


def test_retries_of_another_group(caplog: pytest.LogCaptureFixture) -> None:
    """A retry line with another `group.id` than its live line passed over everything: thousands of
    lines at INFO, and none that named both groups."""
    listener = OtherGroupsRetries("billing-retries")
    listener(Stopped(left_group=True))
    for offset in (7, 8):
        listener(PassedOver("orders.retry.5m", 0, offset, retry_group_id="billing"))
    (said,) = caplog.messages
    for part in ("group billing-retries ", "orders.retry.5m[0]@7 of group billing:"):
        assert part in said


def test_a_retry_topic_that_comes_to_match(caplog: pytest.LogCaptureFixture) -> None:
    """Another group created its retry topics, and `^orders` read them as new messages without a
    word. One that is named is meant."""
    warner = NewRetryTopics(["^orders", "named.retry.5m"])
    for topic in ("orders", "named.retry.5m", "orders.retry.5m", "orders.retry.5m"):
        warner.note([topic, topic])
    (said,) = caplog.messages
    assert said.startswith("orders.retry.5m has the name of a retry topic")
