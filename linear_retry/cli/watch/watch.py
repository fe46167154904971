"""Watches a group until Ctrl-C: `linear-retry watch`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from linear_retry.cli.options.connection import Connection
from linear_retry.cli.options.journal import JournalSpan
from linear_retry.cli.output.exit_codes import exit_on_error
from linear_retry.cli.output.progress import ProgressBar
from linear_retry.journal.entry import Entry
from linear_retry.journal.group_state import GroupStates

_READ_S = 0.2


class Face(AbstractContextManager["Face"], Protocol):
    """Something that shows how the group stands."""

    def show(self, news: Sequence[Entry], trouble: str | None) -> None:
        """`news` were said since the last call, in order; `trouble` is why nothing comes."""


def watch(connection: Connection, span: JournalSpan, group: str) -> None:
    """Show it until Ctrl-C; ends in `typer.Exit`."""
    with exit_on_error():
        reading = span.reading(connection)
        fold = GroupStates()
        with ProgressBar(f"reading {reading.topic}") as bar:
            for found in reading.backlog(bar):
                fold.take(found)
        with (
            reading.follow() as coming,
            _face(fold, group, reading.topic, as_json=connection.as_json) as face,
        ):
            face.show(fold.view(group).last_events, None)
            while True:
                news = [each for each in coming.read(_READ_S) if fold.take(each)]
                face.show(_ours(news, group), coming.trouble)


def _ours(news: Sequence[object], group: str) -> list[Entry]:
    ours = [each for each in news if isinstance(each, Entry) and each.group == group]
    return sorted(ours, key=lambda entry: (entry.at_ms, entry.instance, entry.sequence))


def _face(fold: GroupStates, group: str, topic: str, *, as_json: bool) -> Face:
    from linear_retry.cli.watch.lines import JsonLines, Lines

    if as_json:
        return JsonLines(fold, group)
    if not _on_a_terminal():
        return Lines(fold, group, topic)
    from rich.console import Console

    from linear_retry.cli.watch.screen import Screen

    return Screen(Console(highlight=False), fold, group, topic)


def _on_a_terminal() -> bool:
    from rich.console import Console

    # isatty too: FORCE_COLOR makes rich take a pipe for a terminal.
    return sys.stdout.isatty() and not Console().is_dumb_terminal
