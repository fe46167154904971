"""Watches a group until Ctrl-C: `linear-retry watch`."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import typer
from rich.console import Console

from linear_retry.cli.circuits import formats
from linear_retry.cli.options.connection import Connection
from linear_retry.cli.options.journal import JournalSpan
from linear_retry.cli.output.exit_codes import exit_on_error
from linear_retry.cli.output.progress import ProgressBar
from linear_retry.cli.output.rows import can_draw, write_json
from linear_retry.journal.entry import Entry, encode
from linear_retry.journal.group_state import GroupStates
from linear_retry.log.event_text import text_of
from linear_retry.records.printable import in_one_line, moment
from linear_retry.retry.clock import now_ms

_READ_S = 0.2
_FIRST = 10

Show: TypeAlias = Callable[[Sequence[Entry], str | None], None]
"""Shows the group's state: takes the new entries, in order, and why nothing can be read."""


def watch(connection: Connection, span: JournalSpan, group: str) -> None:
    """Watches until Ctrl-C; ends in `typer.Exit`."""
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
    if as_json:
        yield JsonDisplay(states, group).show
    elif not can_draw():
        yield LineDisplay(states, group, topic).show
    else:
        from linear_retry.cli.watch.screen import Screen

        with Screen(Console(highlight=False), states, group, topic) as screen:
            yield screen.show


class LineDisplay:
    """Prints one line for each event, starting with the last few. Problems go to stderr."""

    def __init__(self, states: GroupStates, group: str, topic: str) -> None:
        self._states, self._group, self._topic = states, group, topic
        self._amiss: list[str] | None = None
        self._trouble: str | None = None

    def show(self, news: Sequence[Entry], trouble: str | None) -> None:
        for entry in news[-_FIRST:] if self._amiss is None else news:
            typer.echo(event_line(entry))
        amiss = formats.amiss(self._states, self._group, self._topic, trouble)
        for sentence in amiss:
            if sentence not in (self._amiss or ()):
                typer.echo(sentence, err=True)
        if self._trouble is not None and trouble is None:
            typer.echo("the brokers are back", err=True)
        self._amiss, self._trouble = amiss, trouble


class JsonDisplay:
    """Prints one object for each event, and one for the group's state at first and after events."""

    def __init__(self, states: GroupStates, group: str) -> None:
        self._states, self._group = states, group
        self._trouble: str | None = None
        self._skipped = -1

    def show(self, news: Sequence[Entry], trouble: str | None) -> None:
        skipped = self._states.unreadable
        if not news and (skipped, trouble) == (self._skipped, self._trouble):
            return
        self._skipped, self._trouble = skipped, trouble
        write_json({"kind": "event", **json.loads(encode(entry))} for entry in news)
        write_json(
            [
                {
                    "kind": "group",
                    **formats.view_json(self._states.view(self._group), now_ms()),
                    "unreadable": self._states.unreadable,
                    "trouble": trouble,
                }
            ]
        )


def event_line(entry: Entry) -> str:
    """Formats time, member and event."""
    text = text_of(entry.event)
    return in_one_line(f"{moment(entry.at_ms)}  {entry.member}  {text}")
