"""Draws letters on a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from linear_retry.cli.dlq import formats
from linear_retry.dlq import Letter, State

# The id of our own letters contains the origin.
_COLUMNS = ("when", "id", "reason", "exception", "state")
_EXCEPTION_CELLS = 12
_GAP_CELLS = 2
STYLES = {
    State.OPEN: "yellow",
    State.REPLAYED: "green",
    State.RESOLVED: "green",
    State.RETRY: "cyan",
}


@dataclass(frozen=True, slots=True)
class TableRow:
    """A letter's row in a table: a cell for each of `_COLUMNS`, and the lines below."""

    cells: tuple[str, ...]
    state: State
    payload: tuple[str, ...]


def table_row(letter: Letter, state: State, *, payload: bool) -> TableRow:
    """One letter's row."""
    named = dict(zip(formats.HEAD, formats.cells(letter, state), strict=True))
    named["exception"] = _without_module(named["exception"])
    below = formats.payload_cells(letter) if payload else ()
    return TableRow(tuple(named[name] for name in _COLUMNS), state, below)


def print_letters(rows: Sequence[TableRow]) -> None:
    """Prints a table, with one line per letter if the terminal is wide enough, else three."""
    console = Console(highlight=False)
    is_wide = _line_cells(rows) <= console.width
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    # Only this column shrinks: rich would take the space from any column that may wrap.
    narrowed = "exception" if is_wide else "id"
    for name in _COLUMNS if is_wide else ("id", "reason", "state"):
        table.add_column(name, no_wrap=name != narrowed, overflow="fold")
    for row in rows:
        when, name, reason, exception, state = row.cells
        below = [Text(text, "dim", no_wrap=True, overflow="ellipsis") for text in row.payload]
        why = Text(exception, "dim", no_wrap=True, overflow="ellipsis")
        end = Text(reason), Text(state, STYLES[row.state])
        if is_wide:
            table.add_row(when, Text(name), end[0], Group(why, *below), end[1])
        else:
            table.add_row(Group(Text(name), Text(when), why, *below), *end)
    console.print(table)


def _line_cells(rows: Sequence[TableRow]) -> int:
    """Returns the width of a line with a useful part of the exception."""
    widest = [
        max(map(len, column)) for column in zip(_COLUMNS, *(row.cells for row in rows), strict=True)
    ]
    exception = min(widest[3], _EXCEPTION_CELLS)
    return sum(widest) - widest[3] + exception + _GAP_CELLS * len(_COLUMNS)


def _without_module(exception: str) -> str:
    name, colon, message = exception.partition(": ")
    return exception if " " in name else name.rpartition(".")[2] + colon + message
