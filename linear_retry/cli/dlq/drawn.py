"""How do letters look on a terminal?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from linear_retry.cli.dlq import telling
from linear_retry.dlq import Letter, State

_EXCEPTION, _EXCEPTION_CELLS = telling.HEAD.index("exception"), 40
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


def draw(rows: Sequence[DrawnRow]) -> None:
    """A table: a line for each letter where the terminal is wide enough for that, else two."""
    console = Console(highlight=False)
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    (_fill_wide if _line_cells(rows) <= console.width else _fill_narrow)(table, rows)
    console.print(table)


def _line_cells(rows: Sequence[DrawnRow]) -> int:
    """How wide a line is with everything in it, and the beginning of the exception."""
    widest = [max(map(len, column)) for column in zip(*(row.cells for row in rows), strict=True)]
    widest[_EXCEPTION] = min(widest[_EXCEPTION], _EXCEPTION_CELLS)
    return sum(max(*pair) + 3 for pair in zip(widest, map(len, telling.HEAD), strict=True))


def _fill_wide(table: Table, rows: Iterable[DrawnRow]) -> None:
    for name in telling.HEAD:
        # What may wrap gives way where there is no room for all: the exception alone.
        right, may_wrap = name == "failures", name == "exception"
        table.add_column(name, justify="right" if right else "left", no_wrap=not may_wrap)
    for row in rows:
        *cells, exception, state = row.cells
        what = Group(_short(exception), *map(_short, row.payload))
        table.add_row(*map(Text, cells), what, Text(state, STYLES[row.state]))


def _fill_narrow(table: Table, rows: Iterable[DrawnRow]) -> None:
    table.add_column("id\nexception", overflow="fold", ratio=1)
    table.add_column("when\norigin", overflow="fold", min_width=20)
    table.add_column("reason\nfailures", overflow="fold", max_width=10)
    table.add_column("state", no_wrap=True, min_width=8)
    for row in rows:
        when, name, origin, reason, failures, exception, state = row.cells
        table.add_row(
            Group(Text(name), _short(exception), *map(_short, row.payload)),
            Text(f"{when}\n{origin}"),
            Text(reason if failures == "-" else f"{reason}\n{failures}"),
            Text(state, STYLES[row.state]),
        )


def _short(text: str) -> Text:
    return Text(text, "dim", no_wrap=True, overflow="ellipsis")
