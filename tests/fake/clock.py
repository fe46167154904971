"""A virtual clock: waiting takes no time."""

import heapq
import math
from collections.abc import Callable

_LIMIT_S = 90 * 86_400.0
"""Of virtual time: waiting beyond it raises `NothingCanHappenError`."""


class NothingCanHappenError(AssertionError):
    """The test waits for something that will never come. Raised instead of hanging."""


class VirtualClock:
    """Time moves when somebody waits, and only then; what was scheduled runs on the way."""

    def __init__(self) -> None:
        self._now_s = 1_000.0
        self._started_s = self._now_s
        self._limit_s = self._now_s + _LIMIT_S
        self._started_utc_ms = 1_767_225_600_000
        self._suspended_s = 0.0
        self._stepped_ms = 0
        self._actions: list[tuple[float, int, Callable[[], object]]] = []
        self._scheduled = 0

    def now_s(self) -> float:
        return self._now_s

    def suspended_s(self) -> float:
        return self._suspended_s

    def awake_s(self) -> float:
        return self._now_s - self._suspended_s

    def utc_ms(self) -> int:
        return (
            self._started_utc_ms + round((self._now_s - self._started_s) * 1000) + self._stepped_ms
        )

    def at(self, seconds_from_now: float, action: Callable[[], object]) -> None:
        """Run `action` when so many seconds have passed; those of one moment in order of call."""
        due_s = self._now_s + max(seconds_from_now, 0.0)
        self._scheduled += 1
        heapq.heappush(self._actions, (due_s, self._scheduled, action))

    def advance(self, seconds: float) -> None:
        """A handler takes its time: what falls due meanwhile happens at its own moment."""
        until_s = self._now_s + seconds
        while self._now_s < until_s:
            self.wait(until_s)

    def suspend(self, seconds: float, *, seen: bool = True) -> None:
        """The machine sleeps: nothing runs until it wakes up.

        Not `seen`: its clock stood still meanwhile, as CLOCK_MONOTONIC does; the wall's went on.
        """
        if seen:
            self._suspended_s += seconds
            self._move_to(self._now_s + seconds)
        else:
            self.step_wall(seconds)

    def step_wall(self, seconds: float) -> None:
        """Somebody sets the time of day, forward or back. No waiting may depend on it."""
        self._stepped_ms += round(seconds * 1000)

    def wait(self, deadline_s: float) -> None:
        """Move to the next scheduled action or to `deadline_s`, whichever is first, and run it."""
        next_s = self._actions[0][0] if self._actions else math.inf
        self._move_to(min(next_s, deadline_s))
        self.run_due()

    def run_due(self) -> None:
        """Run what is due now."""
        while self._actions and self._actions[0][0] <= self._now_s:
            heapq.heappop(self._actions)[2]()

    def _move_to(self, moment_s: float) -> None:
        if math.isinf(moment_s) or moment_s > self._limit_s:
            raise NothingCanHappenError(
                f"at {self._now_s - self._started_s:.3f} s nothing is scheduled before "
                f"{moment_s - self._started_s:.3f} s"
            )
        self._now_s = max(self._now_s, moment_s)
