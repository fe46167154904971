"""Prints a watched group's events for a pipe, or for a program."""

from __future__ import annotations

import json
from collections.abc import Sequence

import typer

from linear_retry.cli.circuits import formats
from linear_retry.cli.circuits.listing import no_such_group
from linear_retry.cli.output.printable import in_one_line, moment
from linear_retry.cli.output.rows import write_json
from linear_retry.event_text import text_of
from linear_retry.journal.entry import Entry, encode
from linear_retry.journal.group_state import GroupStates
from linear_retry.retry.clock import now_ms

_FIRST = 10


class LineDisplay:
    """One line for each event, after the last few that there were. What is amiss is on stderr."""

    def __init__(self, states: GroupStates, group: str, topic: str) -> None:
        self._states, self._group, self._topic = states, group, topic
        self._trouble: str | None = None
        self._has_begun = False
        self._printed: set[str] = set()

    def show(self, news: Sequence[Entry], trouble: str | None) -> None:
        if not self._has_begun:
            self._has_begun = True
            if self._group not in self._states.groups:
                typer.echo(
                    f"{no_such_group(self._group, self._states, self._topic)}; waiting", err=True
                )
            news = news[-_FIRST:]
        for entry in news:
            typer.echo(event_line(entry))
        self._print_troubles(trouble)

    def _print_troubles(self, trouble: str | None) -> None:
        for sentence in formats.troubles(self._states, [self._states.view(self._group)]):
            if sentence not in self._printed:
                self._printed.add(sentence)
                typer.echo(sentence, err=True)
        if trouble != self._trouble:
            self._trouble = trouble
            typer.echo(away(trouble) if trouble else "the brokers are back", err=True)


class JsonDisplay:
    """One object for each event, and one for how the group stands: at first and after events."""

    def __init__(self, states: GroupStates, group: str) -> None:
        self._states, self._group = states, group
        self._trouble: str | None = None
        self._skipped = (-1, -1)

    def show(self, news: Sequence[Entry], trouble: str | None) -> None:
        skipped = self._states.unreadable, self._states.newer
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
                    "newer": self._states.newer,
                    "trouble": trouble,
                }
            ]
        )


def event_line(entry: Entry) -> str:
    """When, who, and what."""
    text = text_of(entry.event)
    return in_one_line(f"{moment(entry.at_ms)}  {entry.member}  {text}")


def away(trouble: str) -> str:
    """Why nothing comes."""
    return in_one_line(f"{trouble}; it goes on once they are back")
