"""The parts of a section of the page: charts, tables and text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pandas as pd  # type: ignore[import-untyped]  # it has no types

from linear_retry.report.words import count, moment, shown

Tables: TypeAlias = Mapping[str, "pd.DataFrame"]
"""By name, as in docs/spark/report.md, without those for which the lake has no source."""

Row: TypeAlias = dict[str, Any]
_ROWS = 20


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
