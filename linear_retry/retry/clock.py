"""The clocks: a monotonic one for waits, and UTC for people and headers."""

from __future__ import annotations

import time
from functools import partial
from typing import Protocol


class Clock(Protocol):
    """The time, passed as an argument so that tests can use a virtual clock."""

    @property
    def now_s(self) -> NowS:
        """Monotonic seconds, for every wait; includes suspend where the system allows it."""

    @property
    def awake_s(self) -> NowS:
        """Monotonic seconds without the time that the machine was suspended, where known."""

    def utc_ms(self) -> int:
        """UTC in milliseconds, for people and headers. Never for a wait: the clock may be set."""


class NowS(Protocol):
    """A plain callable, for speed: the loop calls it after every message."""

    def __call__(self) -> float: ...


_SUSPEND_AWARE = hasattr(time, "CLOCK_BOOTTIME")


class SystemClock:
    """The system's clocks.

    CLOCK_MONOTONIC stops while a laptop or a virtual machine is suspended, but the broker's
    session timeout does not: a member that resumes must detect the gap.
    """

    # From Python 3.14 on, a partial in a class is a method and would receive `self` as well.
    now_s = staticmethod(
        partial(time.clock_gettime, time.CLOCK_BOOTTIME) if _SUSPEND_AWARE else time.monotonic
    )

    awake_s = staticmethod(time.monotonic)

    def utc_ms(self) -> int:
        return now_ms()


def now_ms() -> int:
    """UTC in milliseconds. Never for a wait: the system clock may be set."""
    return time.time_ns() // 1_000_000
