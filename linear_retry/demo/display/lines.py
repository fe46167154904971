"""What does a log file, a pipe or a program see while it runs?"""

from __future__ import annotations

from typing import Self, TextIO

from linear_retry.demo.display.formats import json_line, line
from linear_retry.demo.record import Record

_PROGRESS_EVERY_S = 1.0


class Lines:
    """One line for each event, and one a second for the progress. No colours, no cursor."""

    def __init__(self, out: TextIO, record: Record) -> None:
        self._out = out
        self._record = record
        self._told = 0
        self._next_progress_s = _PROGRESS_EVERY_S

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to put back."""

    def draw(self) -> None:
        """Tell what is new."""
        for noted in self._record.events(self._told):
            self._told += 1
            self._write(noted.at_s - self._record.started_s, line(noted.event))
        progress = self._record.progress()
        if progress.elapsed_s < self._next_progress_s:
            return
        self._next_progress_s = progress.elapsed_s + _PROGRESS_EVERY_S
        answers = progress.answers
        partitions = " ".join(str(one.paid + one.dead_lettered) for one in progress.partitions)
        self._write(
            progress.elapsed_s,
            f"progress        paid {progress.paid} of {progress.total} ({partitions}), "
            f"attempts {answers.total()}, refused {answers['refused']}, "
            f"503 {answers['unavailable']}",
        )

    def _write(self, at_s: float, text: str) -> None:
        self._out.write(f"{at_s:6.2f} s  {text}\n")
        self._out.flush()


class JsonLines:
    """One JSON object for each event."""

    def __init__(self, out: TextIO, record: Record) -> None:
        self._out = out
        self._record = record
        self._told = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to put back."""

    def draw(self) -> None:
        """Tell what is new."""
        for noted in self._record.events(self._told):
            self._told += 1
            self._out.write(json_line(noted, self._record.started_s) + "\n")
            self._out.flush()
