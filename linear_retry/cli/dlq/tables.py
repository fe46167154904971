"""Draws letters on a terminal."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from linear_retry.cli.dlq import formats
from linear_retry.dlq import Letter, State

_ALL = tuple(range(len(formats.HEAD)))
# The id of a letter of ours says its origin.
_FEW = tuple(formats.HEAD.index(name) for name in ("when", "id", "reason", "exception", "state"))
_EXCEPTION, _STATE = formats.HEAD.index("exception"), formats.HEAD.index("state")
_GAP_CELLS = 2
STYLES = {State.OPEN: "yellow", State.REPLAYED: "green", State.RESOLVED: "green"}


@dataclass(frozen=True, slots=True)
class TableRow:
    """What a table needs of a letter: `cells` as in `formats.HEAD`, and what is below them."""

    cells: tuple[str, ...]
    state: State
    payload: tuple[str, ...]


def table_row(letter: Letter, state: State, *, payload: bool) -> TableRow:
    """One letter's row."""
    below = formats.payload_cells(letter) if payload else ()
    return TableRow(formats.cells(letter, state), state, below)


def print_letters(rows: Sequence[TableRow]) -> None:
    """A table: a line for each letter where the terminal is wide enough for that, else two.

    Between the two widths origin, failures and the exception's module are left out.
    """
    console = Console(highlight=False)
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    if _line_cells(rows, _ALL, exception=40) <= console.width:
        _fill_wide(table, rows, _ALL)
    elif _line_cells(rows, _FEW, exception=12) <= console.width:
        _fill_wide(table, rows, _FEW)
    else:
        _fill_narrow(table, rows)
    console.print(table)


def _line_cells(rows: Sequence[TableRow], columns: Sequence[int], exception: int) -> int:
    """How wide a line of these columns is, with `exception` characters of the exception."""
    widest = [max(map(len, column)) for column in zip(*(row.cells for row in rows), strict=True)]
    widest[_EXCEPTION] = min(widest[_EXCEPTION], exception)
    return sum(max(widest[n], len(formats.HEAD[n])) + _GAP_CELLS for n in columns)


def _fill_wide(table: Table, rows: Iterable[TableRow], columns: Sequence[int]) -> None:
    for name in (formats.HEAD[number] for number in columns):
        # What may wrap gives way where there is no room for all: the exception alone.
        right, may_wrap = name == "failures", name == "exception"
        table.add_column(name, justify="right" if right else "left", no_wrap=not may_wrap)
    for row in rows:
        cells: list[Text | Group] = [*map(Text, row.cells)]
        exception = row.cells[_EXCEPTION]
        exception = exception if columns is _ALL else _without_module(exception)
        cells[_EXCEPTION] = Group(_short(exception), *map(_short, row.payload))
        cells[_STATE] = Text(row.cells[_STATE], STYLES[row.state])
        table.add_row(*(cells[number] for number in columns))


def _fill_narrow(table: Table, rows: Iterable[TableRow]) -> None:
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


def _without_module(exception: str) -> str:
    name, colon, message = exception.partition(": ")
    return exception if " " in name else name.rpartition(".")[2] + colon + message


def _short(text: str) -> Text:
    return Text(text, "dim", no_wrap=True, overflow="ellipsis")
