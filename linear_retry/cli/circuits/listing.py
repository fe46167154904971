"""Prints the open circuits: `circuits list`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import typer

from linear_retry.cli.circuits import formats
from linear_retry.cli.output.exit_codes import NEGATIVE, fail
from linear_retry.cli.output.printable import one_line
from linear_retry.cli.output.progress import ProgressBar
from linear_retry.cli.output.rows import TabbedRows, is_terminal, write_json
from linear_retry.journal.group_state import GroupStates
from linear_retry.journal.group_view import OpenCircuit
from linear_retry.journal.reader import JournalTail
from linear_retry.retry.clock import now_ms

_Row: TypeAlias = tuple[str, OpenCircuit]
"""A group, and a circuit of it."""


def list_circuits(reading: JournalTail, group: str | None, *, as_json: bool) -> None:
    """Print those of one group, or of all."""
    fold = GroupStates()
    with ProgressBar(f"reading {reading.topic}") as bar:
        for found in reading.backlog(bar):
            fold.take(found)
    groups = fold.groups if group is None else (group,)
    views = [fold.view(name) for name in groups]
    for trouble in formats.troubles(fold, views):
        typer.echo(trouble, err=True)
    if group is not None and group not in fold.groups:
        fail(unknown(group, fold, reading.topic), NEGATIVE)
    rows = [(view.group, circuit) for view in views for circuit in view.circuits]
    _write(rows, as_json=as_json)
    if not groups:
        typer.echo(f"no group has said anything in {reading.topic} in this time", err=True)
    elif not rows:
        where = ", ".join(map(one_line, groups))
        typer.echo(f"no circuit is open in {where}, as far as {reading.topic} tells", err=True)


def unknown(group: str, fold: GroupStates, topic: str) -> str:
    """What to say of a group that has said nothing."""
    there = ", ".join(map(one_line, fold.groups))
    return f"group {one_line(group)!r} has said nothing in {topic} in this time; " + (
        f"there are: {there}" if there else "nor has any other"
    )


def _write(rows: Sequence[_Row], *, as_json: bool) -> None:
    at_ms = now_ms()
    if as_json:
        write_json(formats.circuit_json(*row, at_ms) for row in rows)
    elif not rows:
        return
    elif is_terminal():
        from linear_retry.cli.circuits.tables import draw

        draw(rows, at_ms)
    else:
        TabbedRows(formats.HEAD).write(formats.cells(*row, at_ms) for row in rows)
