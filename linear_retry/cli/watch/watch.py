"""Watches a group until Ctrl-C: `linear-retry watch`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from rich.console import Console

from linear_retry.cli.options.connection import Connection
from linear_retry.cli.options.journal import JournalSpan
from linear_retry.cli.output.exit_codes import exit_on_error
from linear_retry.cli.output.progress import ProgressBar
from linear_retry.cli.output.rows import can_draw
from linear_retry.journal.entry import Entry
from linear_retry.journal.group_state import GroupStates

_READ_S = 0.2


Show: TypeAlias = Callable[[Sequence[Entry], str | None], None]
"""Shows how the group stands: the entries since the last call, in order, and why nothing comes."""


def watch(connection: Connection, span: JournalSpan, group: str) -> None:
    """Show it until Ctrl-C; ends in `typer.Exit`."""
    with exit_on_error():
        journal, states = span.reading(connection), GroupStates()
        with ProgressBar(f"reading {journal.topic}") as bar:
            for found in journal.backlog(bar):
                states.take(found)
        with (
            journal.follow(),
            _display(states, group, journal.topic, as_json=connection.as_json) as show,
        ):
            show(states.view(group).last_events, None)
            while True:
                news = [each for each in journal.read(_READ_S) if states.take(each)]
                show(_of_group(news, group), journal.trouble)


def _of_group(news: Sequence[object], group: str) -> list[Entry]:
    found = [each for each in news if isinstance(each, Entry) and each.group == group]
    return sorted(found, key=lambda entry: (entry.at_ms, entry.instance, entry.sequence))


@contextmanager
def _display(states: GroupStates, group: str, topic: str, *, as_json: bool) -> Iterator[Show]:
    from linear_retry.cli.watch.lines import JsonDisplay, LineDisplay

    if as_json:
        yield JsonDisplay(states, group).show
    elif not can_draw():
        yield LineDisplay(states, group, topic).show
    else:
        from linear_retry.cli.watch.screen import Screen

        with Screen(Console(highlight=False), states, group, topic) as screen:
            yield screen.show
