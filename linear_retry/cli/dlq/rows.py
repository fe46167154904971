"""How do rows reach the screen, the pipe, or the next program?"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import typer


def on_a_terminal() -> bool:
    """Whether a person looks at stdout."""
    return sys.stdout.isatty()


class Lines:
    """Rows for a pipe: tabs between the cells, which `cut` and `awk` understand; a head first."""

    def __init__(self, head: Sequence[str]) -> None:
        self._head: Sequence[str] | None = head

    def write(self, rows: Iterable[Sequence[str]]) -> None:
        """Print them: what a pipe takes at once, and not line by line."""
        lines = ["\t".join(row) for row in rows]
        if self._head is not None:
            lines.insert(0, "\t".join(self._head))
            self._head = None
        if lines:
            typer.echo("\n".join(lines))


def write_json(objects: Iterable[dict[str, Any]]) -> None:
    """One object on each line."""
    import orjson

    lines = b"".join([orjson.dumps(each) + b"\n" for each in objects])
    if lines:
        typer.echo(lines, nl=False)


def write_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[str] = ()
) -> None:
    """All rows there are: drawn on a terminal, with `numbers` aligned; else as `Lines`."""
    if not on_a_terminal():
        Lines(head).write(rows)
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    right = frozenset(numbers)
    for name in head:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console(highlight=False).print(table)
