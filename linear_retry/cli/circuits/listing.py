"""Prints the open circuits: `circuits list`."""

from collections.abc import Mapping, Sequence

import typer

from linear_retry.cli.circuits import formats
from linear_retry.cli.output.exit_codes import NEGATIVE, fail
from linear_retry.cli.output.progress import ProgressBar
from linear_retry.cli.output.rows import TabbedRows, is_terminal, write_json
from linear_retry.journal.group_state import GroupStates
from linear_retry.journal.group_view import OpenCircuit
from linear_retry.journal.reader import JournalTail
from linear_retry.journal.standing import Standing, Standings
from linear_retry.records.printable import one_line
from linear_retry.retry.clock import now_ms


def list_circuits(
    journal: JournalTail, standings: Standings, group: str | None, *, as_json: bool
) -> None:
    """Prints the open circuits of one group, or of all."""
    states = GroupStates()
    with ProgressBar(f"reading {journal.topic}") as bar:
        for found in journal.backlog(bar):
            states.take(found)
    groups = states.groups if group is None else (group,)
    views = [states.view(name) for name in groups]
    for trouble in formats.troubles(states, views):
        typer.echo(trouble, err=True)
    if group is not None and group not in states.groups:
        fail(formats.no_such_group(group, states, journal.topic), NEGATIVE)
    standings.refresh()
    standing_of = {view.group: standings.of(view) for view in views}
    for name, standing in standing_of.items():
        if (text := formats.standing_text(name, standing)) is not None:
            typer.echo(text, err=True)
    rows = [(view.group, circuit) for view in views for circuit in view.circuits]
    _print(rows, standing_of, as_json=as_json)
    if not groups:
        typer.echo(f"no group has entries in {journal.topic} in this time", err=True)
    elif not rows:
        where = ", ".join(map(one_line, groups))
        typer.echo(f"no circuit is open in {where}, according to {journal.topic}", err=True)


def _print(
    rows: Sequence[tuple[str, OpenCircuit]], found: Mapping[str, Standing], *, as_json: bool
) -> None:
    at_ms = now_ms()
    if as_json:
        write_json(formats.circuit_json(*row, at_ms, found[row[0]].liveness) for row in rows)
    elif not rows:
        return
    elif is_terminal():
        from linear_retry.cli.circuits.tables import print_circuits

        print_circuits(rows, at_ms)
    else:
        TabbedRows(formats.HEAD).write(
            formats.cells(*row, at_ms, found[row[0]].liveness) for row in rows
        )
