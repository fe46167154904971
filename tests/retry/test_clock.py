"""The machine's clock says what waits and headers need."""

import inspect
import time
from datetime import UTC, datetime

from linear_retry.retry.clock import SystemClock


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


def test_waiting_goes_on_while_the_machine_sleeps() -> None:
    """By the clock that counts suspend, where there is one: the broker's session timeout does not
    wait. What the machine has slept is what that clock is ahead of one that stands still."""
    clock = SystemClock()
    earliest_s, least_awake_s = _waiting_s(), time.monotonic()
    now_s, awake_s = clock.now_s(), clock.awake_s()
    assert earliest_s <= now_s <= _waiting_s()
    assert least_awake_s <= awake_s <= time.monotonic()
    assert hasattr(time, "CLOCK_BOOTTIME") == (SystemClock.now_s is not time.monotonic)


def _waiting_s() -> float:
    return (
        time.clock_gettime(time.CLOCK_BOOTTIME)
        if hasattr(time, "CLOCK_BOOTTIME")
        else time.monotonic()
    )


def test_the_time_is_asked_of_nobody() -> None:
    """A partial in a class is told whose it is from Python 3.14 on, and `clock_gettime` refuses."""
    assert isinstance(inspect.getattr_static(SystemClock, "now_s"), staticmethod)
