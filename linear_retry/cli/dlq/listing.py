"""Prints or counts the letters of a topic: `dlq list`."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from heapq import nlargest
from itertools import islice, starmap
from typing import Any, TypeAlias

import typer

from linear_retry.cli.dlq import formats
from linear_retry.cli.output.progress import ProgressBar
from linear_retry.cli.output.rows import TabbedRows, is_terminal, json_line, write_json, write_table
from linear_retry.dlq import DeadLetterTopic, Filter, Letter, State
from linear_retry.dlq.stats import count
from linear_retry.records import printable

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
        from linear_retry.cli.dlq.tables import print_letters, table_row

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
