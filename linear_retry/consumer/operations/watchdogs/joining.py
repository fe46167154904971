"""Says that a member waits for its group, as long as it does: a rebalance may take minutes."""

from collections.abc import Callable

from linear_retry.retry.clock import NowS

_EVERY_S = 10.0


class JoiningWatchdog:
    """Calls `say` with the seconds waited, every 10 s that the member is not in its group."""

    def __init__(
        self, now_s: NowS, has_joined: Callable[[], bool], say: Callable[[float], object]
    ) -> None:
        self._now_s = now_s
        self._has_joined = has_joined
        self._say = say
        self._since_s = now_s()
        self.due_at_s = self._since_s + _EVERY_S

    def tick(self) -> None:
        """Looks whether it is in its group."""
        now_s = self._now_s()
        self.due_at_s = now_s + _EVERY_S
        if self._has_joined():
            self._since_s = now_s
        else:
            self._say(now_s - self._since_s)
