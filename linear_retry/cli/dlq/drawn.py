"""How do letters look on a terminal?"""

from __future__ import annotations

from collections.abc import Iterable

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from linear_retry.cli.dlq import telling
from linear_retry.dlq import Letter, State

WIDE = 160
STYLES = {State.OPEN: "yellow", State.REPLAYED: "green", State.RESOLVED: "green"}


def draw(found: Iterable[tuple[Letter, State]], *, payload: bool) -> None:
    """A table: a line for each letter where the terminal is wide, else two."""
    console = Console(highlight=False)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    if console.width >= WIDE and not payload:
        _fill_wide(table, found)
    else:
        _fill_narrow(table, found, payload=payload)
    console.print(table)


def _fill_wide(table: Table, found: Iterable[tuple[Letter, State]]) -> None:
    for name in telling.HEAD:
        table.add_column(
            name,
            justify="right" if name == "failures" else "left",
            no_wrap=name in ("when", "exception", "state"),
            overflow="ellipsis" if name == "exception" else "fold",
        )
    for letter, state in found:
        *cells, last = telling.cells(letter, state)
        table.add_row(*map(Text, cells), Text(last, STYLES[state]))


def _fill_narrow(table: Table, found: Iterable[tuple[Letter, State]], *, payload: bool) -> None:
    table.add_column("id\nexception", overflow="fold", ratio=1)
    table.add_column("when\norigin", overflow="fold", min_width=20)
    table.add_column("reason\nfailures", overflow="fold")
    table.add_column("state", no_wrap=True)
    for letter, state in found:
        what = [
            Text(telling.one_line(telling.name(letter))),
            Text(telling.exception(letter), "dim", no_wrap=True, overflow="ellipsis"),
        ]
        if payload:
            what += map(Text, telling.payload_cells(letter))
        failures = "" if letter.failures is None else f"\n{letter.failures}"
        table.add_row(
            Group(*what),
            Text(f"{telling.moment(letter.timestamp_ms)}\n{telling.origin(letter)}"),
            Text(telling.reason(letter) + failures),
            Text(state.value, STYLES[state]),
        )
