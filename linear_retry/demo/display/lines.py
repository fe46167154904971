"""Shows the run line by line, for log files, pipes and programs."""

import json
from dataclasses import asdict
from datetime import datetime
from typing import Self, TextIO

from linear_retry.demo.display.watching import Circuits
from linear_retry.demo.record import Record
from linear_retry.log.event_text import text_of
from linear_retry.testing.event_log import EventEmitted

_PROGRESS_EVERY_S = 1.0


class JsonLines:
    """One JSON object for each event."""

    def __init__(self, record: Record, _: Circuits, out: TextIO | None = None) -> None:
        """`out`: stdout, where it is None."""
        self._record = record
        self._out = out
        self._drawn = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to restore."""

    def draw(self) -> None:
        """Writes what is new."""
        for noted in self._record.events(self._drawn):
            self._drawn += 1
            self._write(self._line(noted))

    def _line(self, noted: EventEmitted) -> str:
        """One JSON object: `at_s` (since the start), `event`, and the event's own fields."""
        at_s = round(noted.at_s - self._record.started_s, 4)
        head = {"at_s": at_s, "event": type(noted.event).__name__}
        return json.dumps(head | asdict(noted.event), default=_plain)

    def _write(self, line: str) -> None:
        print(line, file=self._out, flush=True)


class Lines(JsonLines):
    """One line for each event, and one a second for the progress. No colours, no cursor."""

    _next_progress_s = _PROGRESS_EVERY_S

    def draw(self) -> None:
        super().draw()
        progress = self._record.progress()
        if progress.elapsed_s < self._next_progress_s:
            return
        self._next_progress_s = progress.elapsed_s + _PROGRESS_EVERY_S
        answers = progress.answers
        partitions = " ".join(str(one.paid + one.dead_lettered) for one in progress.partitions)
        self._write(
            f"{progress.elapsed_s:6.2f} s  "
            f"progress        paid {progress.paid} of {progress.total} ({partitions}), "
            f"attempts {answers.total()}, refused {answers['refused']}, "
            f"503 {answers['unavailable']}"
        )

    def _line(self, noted: EventEmitted) -> str:
        return f"{noted.at_s - self._record.started_s:6.2f} s  {text_of(noted.event)}"


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
