"""How do the tables become files, for programs and for people?"""

from __future__ import annotations

from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]  # it has no types

from linear_retry.files import atomic_file
from linear_retry.report.section import Tables

NAMES = (
    *("groups", "outages_over_time", "durations", "duration_quantiles"),
    *("letters", "letters_over_time", "keys", "errors", "events"),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_tables(tables: Tables, folder: Path) -> None:
    """Each as NAME.parquet and NAME.csv; those of an earlier report that are not among them go.

    Else keys would stay there that are now to be left out. Raises `OSError`.
    """
    folder.mkdir(exist_ok=True)
    for name in NAMES:
        parquet, csv = folder / f"{name}.parquet", folder / f"{name}.csv"
        if name not in tables:
            parquet.unlink(missing_ok=True)
            csv.unlink(missing_ok=True)
            continue
        with atomic_file(parquet) as file:
            tables[name].to_parquet(file, index=False)
        with atomic_file(csv) as file:
            tables[name].apply(_inert).to_csv(file, index=False, encoding="utf-8")


def _inert(column: pd.Series) -> pd.Series:
    """Text that a spreadsheet would take for a formula, with an apostrophe before it (OWASP)."""
    return column.map(
        lambda cell: f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
    )
