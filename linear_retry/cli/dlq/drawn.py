"""How do letters look on a terminal?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from linear_retry.cli.dlq import telling
from linear_retry.dlq import Letter, State

WIDE = 160
STYLES = {State.OPEN: "yellow", State.REPLAYED: "green", State.RESOLVED: "green"}


@dataclass(frozen=True, slots=True)
class DrawnRow:
    """What a table needs of a letter: `cells` as in `telling.HEAD`, and what is below them."""

    cells: tuple[str, ...]
    state: State
    payload: tuple[str, ...]


def drawn_row(letter: Letter, state: State, *, payload: bool) -> DrawnRow:
    """One letter's row."""
    below = telling.payload_cells(letter) if payload else ()
    return DrawnRow(telling.cells(letter, state), state, below)


def draw(rows: Iterable[DrawnRow]) -> None:
    """A table: a line for each letter where the terminal is wide, else two."""
    console = Console(highlight=False)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    (_fill_wide if console.width >= WIDE else _fill_narrow)(table, rows)
    console.print(table)


def _fill_wide(table: Table, rows: Iterable[DrawnRow]) -> None:
    for name in telling.HEAD:
        table.add_column(
            name,
            justify="right" if name == "failures" else "left",
            no_wrap=name in ("when", "exception", "state"),
            overflow="ellipsis" if name == "exception" else "fold",
        )
    for row in rows:
        *cells, exception, state = row.cells
        what = Group(Text(exception), *map(Text, row.payload)) if row.payload else Text(exception)
        table.add_row(*map(Text, cells), what, Text(state, STYLES[row.state]))


def _fill_narrow(table: Table, rows: Iterable[DrawnRow]) -> None:
    table.add_column("id\nexception", overflow="fold", ratio=1)
    table.add_column("when\norigin", overflow="fold", min_width=20)
    table.add_column("reason\nfailures", overflow="fold")
    table.add_column("state", no_wrap=True)
    for row in rows:
        when, name, origin, reason, failures, exception, state = row.cells
        short = Text(exception, "dim", no_wrap=True, overflow="ellipsis")
        table.add_row(
            Group(Text(name), short, *map(Text, row.payload)),
            Text(f"{when}\n{origin}"),
            Text(reason if failures == "-" else f"{reason}\n{failures}"),
            Text(state, STYLES[row.state]),
        )
