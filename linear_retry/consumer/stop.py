"""Has someone asked for the end?"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class StopFlag:
    """Set by any thread, or a signal handler, once and for all; the loop looks at it.

    `poll_by_s` is when the loop has to stop handing over and poll: in here, so that the one look
    at the clock after each message sees a stop too. `on_insisting` is called, in whatever thread,
    where a stop is asked for once more. `hurried`: an interrupt waits for the end of a turn.
    """

    asked: bool = False
    poll_by_s: float = -math.inf
    on_insisting: Callable[[], object] | None = None
    hurried: bool = False

    @property
    def pressing(self) -> bool:
        """Whether nothing may be waited for now."""
        return self.asked or self.hurried

    def hurry(self) -> None:
        """For a signal handler."""
        self.hurried = True

    def ask(self) -> None:
        """For any thread."""
        insisting, self.asked = self.asked, True
        self.poll_by_s = -math.inf
        if insisting and self.on_insisting is not None:
            self.on_insisting()

    def allow_until(self, poll_by_s: float) -> None:
        """For the loop. A stop that is asked for meanwhile is not overwritten."""
        self.poll_by_s = poll_by_s
        if self.asked:
            self.poll_by_s = -math.inf
