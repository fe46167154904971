"""Watches a group until Ctrl-C: `linear-retry watch`."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event
from typing import Any, Self, TypeAlias

import typer
from rich.console import Console

from linear_retry.cli.circuits import formats
from linear_retry.cli.options.connection import Connection, JournalSpan
from linear_retry.cli.output.exit_codes import exit_on_error
from linear_retry.cli.output.progress import ProgressBar
from linear_retry.cli.output.rows import can_draw, write_json
from linear_retry.journal.entry import Entry, encode
from linear_retry.journal.group_state import GroupStates, GroupView
from linear_retry.journal.standing import Liveness, Standing, Standings
from linear_retry.log.event_text import text_of
from linear_retry.log.repeating import Repeating
from linear_retry.records.printable import in_one_line, moment
from linear_retry.retry.clock import now_ms

_READ_S = 0.2
_ASK_EVERY_S = 3.0
_FIRST = 10

Show: TypeAlias = Callable[[Sequence[Entry], str | None, Standing], None]
"""Shows the group's state: takes the new entries, in order, why nothing can be read, and how the
group stands in Kafka."""


class StandingThread:
    """Asks Kafka how the group stands, in a thread: an answer may take seconds."""

    def __init__(self, config: Mapping[str, Any], view: GroupView) -> None:
        self.view = view
        """Whose group and topics are asked about."""
        self.newest = Standing(is_asked=False)
        self._standings = Standings(config)
        self._thread = Repeating("watch standing", self._follow, self._note)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.close()

    def _follow(self, stop: Event) -> None:
        while not stop.is_set():
            self._standings.refresh()
            self.newest = self._standings.of(self.view)
            stop.wait(_ASK_EVERY_S)

    def _note(self, _: str) -> None:
        self.newest = Standing()


def watch(connection: Connection, span: JournalSpan, group: str) -> None:
    """Watches until Ctrl-C; ends in `typer.Exit`."""
    with exit_on_error():
        journal, states = span.reading(connection), GroupStates()
        with ProgressBar(f"reading {journal.topic}") as bar:
            for found in journal.backlog(bar):
                states.take(found)
        with (
            StandingThread(connection.keys(), states.view(group)) as kafka,
            journal.follow(),
            _display(states, group, journal.topic, as_json=connection.as_json) as show,
        ):
            show(states.view(group).last_events, None, kafka.newest)
            while True:
                news = [each for each in journal.read(_READ_S) if states.take(each)]
                if news:
                    kafka.view = states.view(group)
                show(_of_group(news, group), journal.trouble, kafka.newest)


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
        self._liveness: Liveness | None = None

    def show(self, news: Sequence[Entry], trouble: str | None, standing: Standing) -> None:
        for entry in news[-_FIRST:] if self._amiss is None else news:
            typer.echo(event_line(entry))
        amiss = formats.amiss(self._states, self._group, self._topic, trouble)
        for sentence in amiss:
            if sentence not in (self._amiss or ()):
                typer.echo(sentence, err=True)
        if self._trouble is not None and trouble is None:
            typer.echo("the brokers are back", err=True)
        self._amiss, self._trouble = amiss, trouble
        self._show_standing(standing)

    def _show_standing(self, standing: Standing) -> None:
        """Says it once it is known, and when it changes."""
        if standing.is_asked and standing.liveness != self._liveness:
            was, self._liveness = self._liveness, standing.liveness
            if standing.liveness != "live" or was is not None:
                typer.echo(f"{in_one_line(self._group)}: {standing}", err=True)


class JsonDisplay:
    """Prints one object for each event, and one for the group's state at first and after events."""

    def __init__(self, states: GroupStates, group: str) -> None:
        self._states, self._group = states, group
        self._told: object = None

    def show(self, news: Sequence[Entry], trouble: str | None, standing: Standing) -> None:
        told = self._states.unreadable, trouble, standing.liveness
        if not news and told == self._told:
            return
        self._told = told
        write_json({"kind": "event", **json.loads(encode(entry))} for entry in news)
        write_json(
            [
                {
                    "kind": "group",
                    **formats.view_json(self._states.view(self._group), now_ms(), standing),
                    "unreadable": self._states.unreadable,
                    "trouble": trouble,
                }
            ]
        )


def event_line(entry: Entry) -> str:
    """Formats time, member and event."""
    text = text_of(entry.event)
    return in_one_line(f"{moment(entry.at_ms)}  {entry.member}  {text}")
