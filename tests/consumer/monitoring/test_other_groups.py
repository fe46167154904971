"""A retry line that reads another group's retries says so, once."""

import pytest

from linear_retry.consumer.monitoring.other_groups import OtherGroupsRetries
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
