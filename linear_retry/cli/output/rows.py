"""Prints rows: as a table, as text for a pipe, or as JSON."""

import json
import shutil
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Literal

import typer

_BAR_CELLS, _BAR_CELLS_LEAST = 40, 10
_WORD_CELLS, _NAME_CELLS = 20, 12
_GAP_CELLS = 2


def plural(count: int, one: str = "letter", more: str | None = None) -> str:
    """Returns `1 letter` or `2 letters`; `more` is an irregular plural."""
    return f"{count} {one if count == 1 else more or f'{one}s'}"


def is_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout.isatty()


def can_draw() -> bool:
    """Whether stdout is a terminal that can move its cursor."""
    from rich.console import Console

    # isatty too: with FORCE_COLOR rich takes a pipe for a terminal.
    return is_terminal() and not Console().is_dumb_terminal


class TabbedRows:
    """Prints rows for a pipe: a header first, tabs between the cells, as for `cut` and `awk`."""

    def __init__(self, head: Sequence[str]) -> None:
        self._head: Sequence[str] | None = head

    def write(self, rows: Iterable[Sequence[str]]) -> None:
        """Prints rows in blocks that fit into a pipe, not line by line."""
        lines = ["\t".join(row) for row in rows]
        if self._head is not None:
            lines.insert(0, "\t".join(self._head))
            self._head = None
        if lines:
            # Bytes: in a text typer would look for colours, however long it is.
            text = "\n".join(lines) + "\n"
            typer.echo(text.encode(sys.stdout.encoding, "backslashreplace"), nl=False)


def json_line(value: dict[str, Any]) -> bytes:
    """Returns one object as a line."""
    import orjson

    try:
        return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        # A lone surrogate, or more than 64 bits: untrusted values may have either.
        return json.dumps(value).encode() + b"\n"


def write_json(objects: Iterable[dict[str, Any]]) -> None:
    """Prints one object on each line."""
    lines = b"".join(map(json_line, objects))
    if lines:
        typer.echo(lines, nl=False)


def write_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[str] = ()
) -> None:
    """Prints all rows: as a table on a terminal, with `numbers` aligned; else as `TabbedRows`."""
    if is_terminal():
        _draw(head, rows, frozenset(numbers), {})
    else:
        TabbedRows(head).write(rows)


def write_aligned(rows: Sequence[Sequence[str]], styles: Mapping[str, str] | None = None) -> None:
    """Like `write_table`, but in a pipe with aligned cells. The first row is the header.

    `styles` has the styles of cells, by their text.
    """
    if is_terminal():
        _draw(rows[0], rows[1:], frozenset(rows[0]), styles or {})
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        typer.echo("  ".join(map(str.rjust, row, widths)).rstrip())


def _draw(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    right: Container[str],
    styles: Mapping[str, str],
) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    console = Console(highlight=False)
    widths = _column_widths([head, *rows], console.width)
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    for name, width in zip(head, widths, strict=True):
        align: Literal["left", "right"] = "right" if name in right else "left"
        table.add_column(name, justify=align, overflow="fold", width=width)
    for row in rows:
        table.add_row(*(Text(cell, styles.get(cell, "")) for cell in row))
    console.print(table)


def _column_widths(rows: Sequence[Sequence[str]], cells: int) -> list[int]:
    """Divides a terminal's width among the columns: the widest shrink, long names first.

    rich would take it from all alike, and break times and numbers within a word.
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    least = [_least_width(column) for column in columns]
    room = cells - _GAP_CELLS * len(columns)
    while sum(widths) > room:
        spare = [width if width > floor else 0 for width, floor in zip(widths, least, strict=True)]
        if not any(spare):
            break
        widths[spare.index(max(spare))] -= 1
    return widths


def _least_width(column: Sequence[str]) -> int:
    longest_word = max((len(word) for cell in column for word in cell.split()), default=0)
    return longest_word if longest_word <= _WORD_CELLS else _NAME_CELLS


def write_bars(title: str, rows: Sequence[tuple[str, int]]) -> None:
    """Prints a title, and each name with its count and a bar.

    A name that leaves no room for a bar loses its middle: both ends of topics, keys and types say
    something. In a pipe a line has 80 cells.
    """
    typer.echo(f"\n{title}")
    longest = max((count for _, count in rows), default=0)
    digits = len(str(longest))
    room = shutil.get_terminal_size().columns - digits - 3 * _GAP_CELLS
    names = [_without_middle(name, max(room - _BAR_CELLS_LEAST, _NAME_CELLS)) for name, _ in rows]
    width = max(map(len, names), default=0)
    bar_cells = min(max(room - width, _BAR_CELLS_LEAST), _BAR_CELLS)
    for name, (_, count) in zip(names, rows, strict=True):
        bar = "#" * -(-count * bar_cells // longest)
        typer.echo(f"  {name:<{width}}  {count:>{digits}}  {bar}".rstrip())


def _without_middle(name: str, cells: int) -> str:
    if len(name) <= cells:
        return name
    end = cells // 2
    return f"{name[: cells - end - 1]}…{name[-end:]}"
