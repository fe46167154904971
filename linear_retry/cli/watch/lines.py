"""Prints a watched group's events for a pipe, or for a program."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Self

import typer

from linear_retry.cli.circuits import formats
from linear_retry.cli.circuits.listing import unknown
from linear_retry.cli.output.printable import in_one_line, moment
from linear_retry.cli.output.rows import json_line
from linear_retry.event_text import text_of
from linear_retry.journal.entry import Entry, encode
from linear_retry.journal.group_state import GroupStates
from linear_retry.retry.clock import now_ms

_FIRST = 10


class Lines:
    """One line for each event, after the last few that there were. What is amiss is on stderr."""

    def __init__(self, fold: GroupStates, group: str, topic: str) -> None:
        self._fold, self._group, self._topic = fold, group, topic
        self._trouble: str | None = None
        self._begun = False
        self._said: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to put back."""

    def show(self, news: Sequence[Entry], trouble: str | None) -> None:
        if not self._begun:
            self._begun = True
            if self._group not in self._fold.groups:
                typer.echo(f"{unknown(self._group, self._fold, self._topic)}; waiting", err=True)
            news = news[-_FIRST:]
        for entry in news:
            typer.echo(event_line(entry))
        self._say_what_is_amiss(trouble)

    def _say_what_is_amiss(self, trouble: str | None) -> None:
        for sentence in formats.troubles(self._fold, [self._fold.view(self._group)]):
            if sentence not in self._said:
                self._said.add(sentence)
                typer.echo(sentence, err=True)
        if trouble != self._trouble:
            self._trouble = trouble
            typer.echo(away(trouble) if trouble else "the brokers are back", err=True)


class JsonLines:
    """One object for each event, and one for how the group stands: at first and after events."""

    def __init__(self, fold: GroupStates, group: str) -> None:
        self._fold, self._group = fold, group
        self._trouble: str | None = None
        self._amiss = (-1, -1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to put back."""

    def show(self, news: Sequence[Entry], trouble: str | None) -> None:
        amiss = self._fold.unreadable, self._fold.newer
        if not news and (amiss, trouble) == (self._amiss, self._trouble):
            return
        self._amiss, self._trouble = amiss, trouble
        for entry in news:
            _write({"kind": "event", **json.loads(encode(entry))})
        _write(
            {
                "kind": "group",
                **formats.view_json(self._fold.view(self._group), now_ms()),
                "unreadable": self._fold.unreadable,
                "newer": self._fold.newer,
                "trouble": trouble,
            }
        )


def event_line(entry: Entry) -> str:
    """When, who, and what."""
    text = text_of(entry.event)
    return in_one_line(f"{moment(entry.at_ms)}  {entry.member}  {text}")


def away(trouble: str) -> str:
    """Why nothing comes."""
    return in_one_line(f"{trouble}; it goes on once they are back")


def _write(told: dict[str, Any]) -> None:
    typer.echo(json_line(told), nl=False)
