"""Prints, counts, shows and exports the letters of a topic."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import nlargest
from itertools import islice, starmap
from pathlib import Path
from typing import Any, TypeAlias

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from linear_retry.cli.dlq import formats
from linear_retry.cli.output import contents
from linear_retry.cli.output.exit_codes import NEGATIVE, UNAVAILABLE, fail
from linear_retry.cli.output.progress import ProgressBar
from linear_retry.cli.output.rows import (
    TabbedRows,
    is_terminal,
    json_line,
    plural,
    write_json,
    write_table,
)
from linear_retry.dlq import DeadLetterTopic, Filter, Letter, Resolution, State
from linear_retry.dlq.letters.letter import facts_of
from linear_retry.dlq.stats import count
from linear_retry.files import printable_path
from linear_retry.records import printable
from linear_retry.records.retry_headers import (
    EXCEPTION_MESSAGE,
    EXCEPTION_STACK,
    EXCEPTION_TYPE,
)

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


SORTED = 10_000
_SORTED_BYTES = 16 * 1024 * 1024
_CHUNK = 1_000


# How a letter becomes a row, and how rows are written. Only the small rows are kept in memory
# until all letters are read.
_RowOf: TypeAlias = Callable[[Letter, State], Any]
_Write: TypeAlias = Callable[[Sequence[Any]], object]


def list_letters(
    topic: DeadLetterTopic,
    letter_filter: Filter,
    *,
    newest: int | None,
    payload: bool,
    as_json: bool,
) -> None:
    """Prints the selected letters, or the `newest` of them.

    Sorted by time, up to some thousands; more are printed as they are read.
    """
    row_of, write = _writer(payload=payload, as_json=as_json)
    with ProgressBar(f"reading {topic.topic}") as bar:
        seen: set[State] = set()
        found = _noted(topic.letters(letter_filter, bar), seen)
        if newest is None:
            rows, is_all = _sorted_rows(found, row_of)
        else:
            rows, is_all = _newest_rows(found, row_of, newest), True
        bar.hide()
        if not rows:
            typer.echo(formats.no_letters(topic.topic, letter_filter), err=True)
            return
        write(rows)
        while not is_all and (rows := list(starmap(row_of, islice(found, _CHUNK)))):
            write(rows)
        if State.RETRY in seen:
            typer.echo(formats.IN_RETRY, err=True)


def _noted(
    found: Iterator[tuple[Letter, State]], seen: set[State]
) -> Iterator[tuple[Letter, State]]:
    """The same letters; their states are added to `seen`."""
    for letter, state in found:
        seen.add(state)
        yield letter, state


def _sorted_rows(found: Iterator[tuple[Letter, State]], row_of: _RowOf) -> tuple[list[Any], bool]:
    """Returns as many rows as memory allows, sorted by time, and whether these are all."""
    first: list[tuple[tuple[int, int, int], Any]] = []
    left_bytes, is_all = _SORTED_BYTES, True
    for letter, state in found:
        first.append((_when_and_where(letter), row_of(letter, state)))
        left_bytes -= len(letter.value or b"") + len(letter.key or b"")
        if len(first) == SORTED or left_bytes < 0:
            is_all = False
            break
    first.sort(key=lambda each: each[0])
    return [row for _, row in first], is_all


def _newest_rows(found: Iterator[tuple[Letter, State]], row_of: _RowOf, count: int) -> list[Any]:
    """Returns the last `count` rows by time, in order."""
    rows = ((_when_and_where(letter), row_of(letter, state)) for letter, state in found)
    return [row for _, row in reversed(nlargest(count, rows, key=lambda each: each[0]))]


def _when_and_where(letter: Letter) -> tuple[int, int, int]:
    return letter.timestamp_ms, letter.partition, letter.offset


def _writer(*, payload: bool, as_json: bool) -> tuple[_RowOf, _Write]:
    if as_json:
        return (
            lambda letter, state: json_line(formats.as_json(letter, state, payload=payload)),
            lambda lines: typer.echo(b"".join(lines), nl=False),
        )
    if is_terminal():
        from linear_retry.cli.dlq.listing import print_letters, table_row

        return partial(table_row, payload=payload), print_letters
    if not payload:
        return formats.cells, TabbedRows(formats.HEAD).write
    return (
        lambda letter, state: (*formats.cells(letter, state), *formats.payload_cells(letter)),
        TabbedRows((*formats.HEAD, *formats.PAYLOAD_HEAD)).write,
    )


def count_letters(
    topic: DeadLetterTopic, letter_filter: Filter, fields: Sequence[str], *, as_json: bool
) -> None:
    """Prints how many of the selected letters agree in these fields, most frequent first."""
    with ProgressBar(f"reading {topic.topic}") as bar:
        counts = count(topic.letters(letter_filter, bar), fields)
    if not counts:
        typer.echo(formats.no_letters(topic.topic, letter_filter), err=True)
        return
    if as_json:
        write_json(
            {**dict(zip(fields, group, strict=True)), "letters": number}
            for group, number in counts.most()
        )
    else:
        rows = [
            (*("-" if part is None else printable.one_line(part) for part in group), str(number))
            for group, number in counts.most()
        ]
        write_table((*fields, "letters"), rows, numbers=("letters",))
    if counts.others:
        typer.echo(f"{counts.others} more letters are of other groups, too many to count", err=True)


def export(
    topic: DeadLetterTopic, to: Path, letter_filter: Filter, *, overwrite: bool, as_json: bool
) -> None:
    """Writes the selected letters to a file, which appears when it is complete."""
    if not overwrite and to.exists():
        raise typer.BadParameter(
            f"{printable_path(to)} already exists, and may have the only copy of some "
            "letters; name another file, or write --overwrite",
            param_hint="--to",
        )
    try:
        with ProgressBar(f"exporting {topic.topic}") as bar:
            count = topic.export(to, letter_filter, bar)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        fail(f"{printable_path(to)}: cannot be written ({reason})", UNAVAILABLE)
    if as_json:
        write_json([{"file": printable_path(to), "letters": count, "bytes": to.stat().st_size}])
    else:
        typer.echo(f"{printable_path(to)}: {plural(count)}")
    if not count:
        typer.echo(formats.no_letters(topic.topic, letter_filter), err=True)


_SHOWN_ABOVE = frozenset({EXCEPTION_TYPE, EXCEPTION_MESSAGE, EXCEPTION_STACK})


def show(topic: DeadLetterTopic, letter_id: str, *, payload: bool, as_json: bool) -> None:
    """Prints all letters with this id in full, the oldest generation first."""
    with ProgressBar(f"reading {topic.topic}") as bar:
        found = topic.get(letter_id, bar)
    if not found:
        fail(formats.no_such_letter([letter_id], topic.topic), NEGATIVE)
    for number, (letter, state) in enumerate(found):
        resolution = topic.resolution(letter)
        if as_json:
            write_json([_as_json(letter, state, resolution, payload=payload)])
            continue
        lines = [*_lines(letter, state, resolution), *_contents(letter, payload=payload)]
        typer.echo("\n".join(["", *lines] if number else lines))


def _as_json(
    letter: Letter, state: State, resolution: Resolution | None, *, payload: bool
) -> dict[str, Any]:
    return {
        **formats.as_json(letter, state, payload=payload),
        "exception_stack": letter.exception_stack,
        "resolution": resolution,
        "headers": [
            {"name": name, **formats.content("value", value)} for name, value in letter.headers
        ],
        "escaped_headers": letter.escaped_headers,
        "key_bytes": None if letter.key is None else len(letter.key),
        "value_bytes": None if letter.value is None else len(letter.value),
    }


def _lines(letter: Letter, state: State, resolution: Resolution | None) -> Iterator[str]:
    for name, text in facts_of(letter, _state(state, resolution)).items():
        yield from contents.labelled(name, text)
    if letter.exception_stack is not None:
        yield "stack"
        yield from (f"  {line}" for line in printable.lines(letter.exception_stack.rstrip("\n")))
    yield "headers" if letter.headers else "headers     none"
    for name, value in letter.headers:
        if name not in _SHOWN_ABOVE:
            yield f"  {printable.in_one_line(f'{name} = {contents.shown(value)}')}"


def _state(state: State, resolution: Resolution | None) -> str:
    if state is State.RETRY:
        return "retry: a message of a retry topic, no dead letter"
    if resolution is None:
        return state.value
    why = f": {resolution.why}" if resolution.why else ""
    replay = f" ({resolution.replay_id})" if resolution.replay_id else ""
    by = f"{resolution.state} by {resolution.by}"
    return f"{by} at {printable.moment(resolution.at_ms)}{replay}{why}"


def _contents(letter: Letter, *, payload: bool) -> Iterator[str]:
    yield from contents.whole("key", letter.key, payload=payload)
    yield from contents.whole("value", letter.value, payload=payload)
