"""How do rows reach the screen, the pipe, or the next program?"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import typer

_STYLES = {"open": "yellow", "replayed": "green", "resolved": "green", "no dead letter": "dim"}


def on_a_terminal() -> bool:
    """Whether a person looks at stdout."""
    return sys.stdout.isatty()


class Rows:
    """Rows of cells below a head: a table on a terminal; in a pipe lines with tabs in them."""

    def __init__(self, head: Sequence[str], numbers: Iterable[str] = ()) -> None:
        """`numbers` are the columns that are aligned to the right."""
        self._head = tuple(head)
        self._numbers = frozenset(numbers)
        self._is_begun = False

    def write(self, rows: Sequence[Sequence[str]]) -> None:
        """Print them; the first time, and above each table, the head."""
        if on_a_terminal():
            self._draw(rows)
            return
        lines = ["\t".join(row) for row in (rows if self._is_begun else (self._head, *rows))]
        self._is_begun = True
        if lines:
            typer.echo("\n".join(lines))

    def _draw(self, rows: Sequence[Sequence[str]]) -> None:
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for name in self._head:
            right = name in self._numbers
            table.add_column(name, justify="right" if right else "left", overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell, _STYLES.get(cell, "")) for cell in row))
        Console(highlight=False).print(table)


def write_json(objects: Iterable[dict[str, Any]]) -> None:
    """One object on each line."""
    import orjson

    lines = b"".join([orjson.dumps(each) + b"\n" for each in objects])
    if lines:
        typer.echo(lines, nl=False)
