"""Reports on a lake: one HTML page, and its tables beside it."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]  # it has no types

from linear_retry.errors import LinearRetryError
from linear_retry.files import atomic_file
from linear_retry.report.section import Tables
from linear_retry.spark.history.tuning import Tuned
from linear_retry.spark.lake.lake import Lake
from linear_retry.spark.reporting.summaries import Estimates, Summaries, summaries
from linear_retry.strategy.tuning.solver import DEFAULT_COVER, Conditions

TABLES = (
    *("groups", "outages_over_time", "durations", "duration_quantiles", "proposals"),
    *("letters", "letters_over_time", "keys", "errors", "events"),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class ReportError(LinearRetryError):
    """The report cannot be written to the given file."""

    __module__ = "linear_retry.spark"  # its public name, for logs and dead letters


@dataclass(frozen=True, slots=True)
class Reported:
    """The page, the folder of its tables, and how many outages, letters and pieces of advice
    they show.

    `outages` and `letters` are None if the lake has no such table.
    """

    page: str
    tables: str
    outages: int | None
    letters: int | None
    advice: int


def report(
    lake: Lake,
    to: str | os.PathLike[str],
    *,
    keys: bool = True,
    probe_cost_s: float = 10,
    cover: float = DEFAULT_COVER,
    resamples: int = 100,
    seed: int = 1,
    made_at: datetime | None = None,
    proposals: Sequence[Tuned] | None = None,
) -> Reported:
    """Writes the page `to`, and the tables that it is made of beside it: NAME.html, NAME_tables/.

    `probe_cost_s` and `cover` are what the proposed delays are made for, as of `tune`; if that has
    run with the same two and the same journal, `proposals` are its result, and are not made again.
    Without `keys`, neither the letters' keys nor the texts of their exceptions are in them. The
    bounds of durations are from so many `resamples`, drawn by `seed`. Each file is written whole,
    and the page last. Raises `LakeError` if there is nothing to report, or the lake cannot be read,
    `ReportError` if the page cannot be written, and `UsageError` for a `cover` out of range.
    """
    page = Path(to)
    folder = page.with_name(f"{page.stem}_tables")
    estimates = Estimates(resamples, seed, probe_cost_s, Conditions(cover=cover), proposals)
    check(page)
    found, text, advice = _rendered(lake, estimates, folder, keys, made_at or datetime.now(UTC))
    try:
        write_tables(found.tables, folder)
        with atomic_file(page) as file:
            file.write(text.encode())
    except OSError as error:
        raise ReportError(f"{page}: cannot be written ({error.strerror or error})") from error
    return Reported(str(page), str(folder), found.outages, found.letters, advice)


def _rendered(
    lake: Lake, estimates: Estimates, folder: Path, keys: bool, made_at: datetime
) -> tuple[Summaries, str, int]:
    """Returns the tables, the page's text, and its number of pieces of advice."""
    # Imported here: they take seconds to load, and an ingest does not need them.
    from linear_retry.report.charts import bundle
    from linear_retry.report.page import render

    with ThreadPoolExecutor(1) as pool:
        scripts = pool.submit(bundle)  # takes seconds, like Spark
        found = summaries(lake, estimates, keys=keys)
        text, advice = render(
            found.tables,
            scripts.result(),
            lake=lake.path,
            folder=f"{folder.name}/",
            made_at=made_at,
        )
    return found, text, advice


def check(page: Path) -> None:
    """Raises `ReportError` if the page cannot be written, before a large lake is read for it.

    And `ModuleNotFoundError` if the libraries that draw it are not installed.
    """
    import_module("linear_retry.report.charts")
    if page.suffix != ".html":
        raise ReportError(f"{page}: give the page a name that ends with .html")
    if page.is_dir() or not os.access(page.parent, os.W_OK | os.X_OK):
        raise ReportError(
            f"{page}: cannot be written; name a file in a directory that you may write to"
        )


def write_tables(tables: Tables, folder: Path) -> None:
    """Writes each as NAME.parquet and NAME.csv, and removes those of an earlier report.

    Else the keys of an earlier report would remain with `keys=False`. Raises `OSError`.
    """
    folder.mkdir(exist_ok=True)
    for name in TABLES:
        parquet, csv = folder / f"{name}.parquet", folder / f"{name}.csv"
        if name not in tables:
            parquet.unlink(missing_ok=True)
            csv.unlink(missing_ok=True)
            continue
        with atomic_file(parquet) as file:
            tables[name].to_parquet(file, index=False)
        with atomic_file(csv) as file:
            tables[name].apply(_without_formulas).to_csv(file, index=False, encoding="utf-8")


def _without_formulas(column: pd.Series) -> pd.Series:
    """Puts an apostrophe before text that a spreadsheet would take for a formula (OWASP)."""
    return column.map(
        lambda cell: f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
    )
