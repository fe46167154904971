"""Does the machine's clock say what waits and headers need?"""

from __future__ import annotations

from datetime import UTC, datetime

from linear_retry.consumer.clock import SystemClock


def test_waiting_time_never_goes_back() -> None:
    """Each reading is at or after the one before."""
    clock = SystemClock()
    readings = [clock.now_s() for _ in range(1000)]
    assert sorted(readings) == readings


def test_the_time_of_day_is_utc_in_milliseconds() -> None:
    """What stands in headers is what the calendar says."""
    before = datetime.now(UTC).timestamp() * 1000
    now_ms = SystemClock().utc_ms()
    after = datetime.now(UTC).timestamp() * 1000
    assert int(before) <= now_ms <= after
