"""A progress bar on the terminal, once a command takes longer than a second."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

_PATIENCE_S = 1.0


class ProgressBar:
    """A callable that takes the number done and the total. Use it in a `with`; it vanishes after.

    It is drawn on stderr, and only if that is a terminal.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._begun_s = time.monotonic()
        self._is_shown = sys.stderr.isatty()
        self._progress: Progress | None = None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        self.hide()

    def __call__(self, done: int, total: int) -> None:
        if not self._is_shown or time.monotonic() - self._begun_s < _PATIENCE_S:
            return
        if self._progress is None:
            self._progress = self._drawn(total)
        for task in self._progress.task_ids:
            self._progress.update(task, completed=done, total=total)

    def hide(self) -> None:
        """Removes it for good, before other output."""
        self._is_shown = False
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def _drawn(self, total: int) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        columns = (self._text, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        progress = Progress(*columns, console=Console(stderr=True), transient=True)
        progress.add_task("", total=total)
        progress.start()
        return progress
