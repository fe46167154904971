"""What is a section of the page made of?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pandas as pd  # type: ignore[import-untyped]  # it has no types

from linear_retry.report.words import count

Tables: TypeAlias = Mapping[str, "pd.DataFrame"]
"""By name, as in docs/report.md; of what the lake does not have there is none."""

Row: TypeAlias = dict[str, Any]
_ROWS = 20


@dataclass(frozen=True, slots=True)
class Swatch:
    """What a colour means."""

    color: str
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """`spec` is Vega-Lite's. `title` is read out in place of the drawing."""

    spec: Mapping[str, Any]
    title: str
    legend: tuple[Swatch, ...] = ()
    caption: str = ""
    is_small: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table on the page. `is_number`: aligned to the right."""

    head: str
    cell: Callable[[Row], str]
    is_number: bool = True


@dataclass(frozen=True, slots=True)
class Grid:
    """A table as it stands on the page, and what is said of the rows that do not."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    more: str = ""

    @classmethod
    def of(
        cls,
        title: str,
        rows: Sequence[Row],
        columns: tuple[Column, ...],
        file: str,
        most: int = _ROWS,
    ) -> Grid:
        """The first rows; the others are in the file `file`."""
        left = len(rows) - most
        return cls(
            title,
            columns,
            tuple(tuple(column.cell(row) for column in columns) for row in rows[:most]),
            f"{count(left)} more in {file}.csv" if left > 0 else "",
        )


@dataclass(frozen=True, slots=True)
class Section:
    """One question and its answer. `text` says what is seen, `notes` how it was counted.

    Where there is nothing, `text` says so, and there is no chart and no grid.
    """

    title: str
    text: str
    charts: tuple[Chart, ...] = ()
    grids: tuple[Grid, ...] = ()
    notes: tuple[str, ...] = ()


def records(table: pd.DataFrame) -> list[Row]:
    """Its rows, with None for what is missing."""
    return list(table.astype(object).where(table.notna(), None).to_dict("records"))


def total(rows: Iterable[Row], name: str) -> float:
    return sum(row[name] or 0 for row in rows)
