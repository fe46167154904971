"""The clocks that waits go by, and that people read."""

from __future__ import annotations

import time
from functools import partial
from typing import Protocol


class Clock(Protocol):
    """Time as an argument: the tests' clock is virtual."""

    @property
    def now_s(self) -> NowS:
        """The clock of every wait: seconds that only grow, suspend included where possible."""

    @property
    def awake_s(self) -> NowS:
        """A clock that stands still while the machine sleeps, as far as can be known."""

    def utc_ms(self) -> int:
        """The time of day, for people and for headers. Never for a wait: it may be set."""


class NowS(Protocol):
    """A plain callable: the loop reads it after every message."""

    def __call__(self) -> float: ...


_SUSPEND_AWARE = hasattr(time, "CLOCK_BOOTTIME")


class SystemClock:
    """The machine's clocks.

    CLOCK_MONOTONIC stands still while a laptop or a virtual machine sleeps, and the broker's
    session timeout does not: a member that wakes up must know that it was away.
    """

    # From Python 3.14 on a partial in a class is a method: it would be given the clock as well.
    now_s = staticmethod(
        partial(time.clock_gettime, time.CLOCK_BOOTTIME) if _SUSPEND_AWARE else time.monotonic
    )

    awake_s = staticmethod(time.monotonic)

    def utc_ms(self) -> int:
        return now_ms()


def now_ms() -> int:
    """The time of day, in milliseconds of UTC. Never for a wait: it may be set."""
    return time.time_ns() // 1_000_000
