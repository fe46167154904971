"""The parts of a section of the page: charts, tables, text, and numbers in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import pandas as pd  # type: ignore[import-untyped]  # it has no types

NOTHING = "–"
_LONGEST = 120
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))

Tables: TypeAlias = Mapping[str, "pd.DataFrame"]
"""By name, as in docs/spark/report.md, without those for which the lake has no source."""
Row: TypeAlias = dict[str, Any]
_ROWS = 20


def shown(text: Any) -> str:
    """Returns `text` as `printable` does, truncated."""
    if text is None:
        return NOTHING
    line = printable(str(text)[: _LONGEST + 1])
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def printable(text: str) -> str:
    """Returns `text` in one line, without characters that move or hide others.

    A name with marks that change the writing direction would read as another one.
    """
    return "".join(each if each.isprintable() else "\ufffd" for each in text)


def simple(error_type: Any) -> str:
    """Returns an exception's type without its module."""
    return shown(error_type).rpartition(".")[2] or shown(error_type)


def count(number: Any) -> str:
    return NOTHING if number is None else f"{round(number):,}"


def counted(number: Any, noun: str) -> str:
    """`1 outage`, `1,200 outages`."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def percent(share: Any) -> str:
    """Formats a share in per cent; never 0 or 100 unless it is exactly that."""
    if share is None:
        return NOTHING
    if 0 < share < 0.001:
        return "< 0.1%"
    if 0.999 < share < 1:
        return "> 99.9%"
    return f"{share * 100:.1f}%" if 0 < share < 0.01 or 0.99 < share < 1 else f"{share * 100:.0f}%"


def duration(seconds: Any) -> str:
    """Formats a time with two or three digits, in the largest unit that gives at least 2."""
    if seconds is None:
        return NOTHING
    for size_s, unit in _UNITS:
        if seconds >= 2 * size_s or (unit == "s" and seconds >= 1):
            number = seconds / size_s
            return f"{number:,.0f} {unit}" if number >= 10 else f"{number:.2g} {unit}"
    return f"{seconds * 1000:.0f} ms"


def signed(seconds: Any) -> str:
    """Formats a time that may be below 0, as a loss is."""
    return f"−{duration(-seconds)}" if seconds is not None and seconds < 0 else duration(seconds)


def between(low_s: Any, high_s: Any) -> str:
    """`12 s to 3.0 min`; `more than 12 s` without an upper bound."""
    if high_s is None:
        return NOTHING if low_s is None else f"more than {duration(low_s)}"
    return f"{signed(low_s)} to {signed(high_s)}"


def moment(at_ms: Any) -> str:
    """Formats a time in UTC, to the minute."""
    if at_ms is None:
        return NOTHING
    return f"{_EPOCH + timedelta(milliseconds=int(at_ms)):%Y-%m-%d %H:%M} UTC"


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart; `spec` is Vega-Lite's, and screen readers read `title`.

    The `legend` has each text with its color.
    """

    spec: Mapping[str, Any]
    title: str
    legend: Mapping[str, str] = field(default_factory=dict)
    caption: str = ""
    is_small: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table on the page; numbers are aligned to the right."""

    head: str
    cell: Callable[[Row], str]
    is_number: bool = True


def text_column(head: str, name: str = "") -> Column:
    """A column of the texts in the field `name`."""
    return Column(head, lambda row: shown(row[name or head]), is_number=False)


def count_column(head: str, name: str = "") -> Column:
    """A column of the counts in the field `name`."""
    return Column(head, lambda row: count(row[name or head]))


LAST = Column("last", lambda row: moment(row["last_ms"]))
FIRST_AND_LAST = (Column("first", lambda row: moment(row["first_ms"])), LAST)


@dataclass(frozen=True, slots=True)
class Grid:
    """A table on the page; `more` says how many rows are left out."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    more: str = ""

    @classmethod
    def of(cls, title: str, rows: Sequence[Row], columns: tuple[Column, ...], file: str) -> Grid:
        """Shows the first rows; all of them are in the file `file`."""
        left = len(rows) - _ROWS
        return cls(
            title,
            columns,
            tuple(tuple(column.cell(row) for column in columns) for row in rows[:_ROWS]),
            f"{count(left)} more in {file}.csv" if left > 0 else "",
        )


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the page: `text` describes the result, `notes` how it was counted.

    If there is nothing to show, `text` says so, without charts and grids.
    """

    title: str
    text: str
    charts: tuple[Chart, ...] = ()
    grids: tuple[Grid, ...] = ()
    notes: tuple[str, ...] = ()


def records(table: pd.DataFrame) -> list[Row]:
    """Returns the rows of a table, with None for missing values."""
    return list(table.astype(object).where(table.notna(), None).to_dict("records"))


def total(rows: Iterable[Row], name: str) -> float:
    return sum(row[name] or 0 for row in rows)
