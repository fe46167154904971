"""Measures the time from the first handled message to the last."""

from collections.abc import Callable
from time import perf_counter


class Stopwatch:
    """The same handler for every contestant, and the time between its first and last message.

    Neither joining the group nor leaving it is in that time. `work_s` is how long the handler is
    busy with each message, 0 for not at all. Needs nothing but Python: neighbours import it too.
    """

    def __init__(self, messages: int, work_s: float = 0.0) -> None:
        self._messages = messages
        self._work_s = work_s
        self._begun_s = 0.0
        self._ended_s = 0.0
        self.at_end: Callable[[], object] = lambda: None

    @property
    def finished(self) -> bool:
        return self._ended_s > 0

    @property
    def elapsed_s(self) -> float:
        return self._ended_s - self._begun_s

    def handler(self) -> Callable[[object], None]:
        """Calls `at_end` with the last message; what comes after that does not count."""
        messages, work_s, seen = self._messages, self._work_s, 0

        def handle(_: object) -> None:
            nonlocal seen
            seen += 1
            if work_s:
                _be_busy(work_s)
            if seen == 1:
                self._begun_s = perf_counter()
            elif seen == messages:
                self._ended_s = perf_counter()
                self.at_end()

        return handle


def _be_busy(work_s: float) -> None:
    until_s = perf_counter() + work_s
    while perf_counter() < until_s:
        pass
