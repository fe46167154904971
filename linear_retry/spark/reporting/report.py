"""How does what a lake says get onto a page, and into tables beside it?"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

from linear_retry.errors import LinearRetryError
from linear_retry.files import atomic_file
from linear_retry.spark.lake.lake import Lake
from linear_retry.spark.reporting.small_tables import write_tables
from linear_retry.spark.reporting.summaries import summaries


class ReportError(LinearRetryError):
    """The report cannot be written where it should be."""


@dataclass(frozen=True, slots=True)
class Reported:
    """Where the page is and the folder of its tables, and of how much it tells.

    `outages` and `letters` are None where the lake has no such table.
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
    resamples: int = 100,
    seed: int = 1,
    made_at: datetime | None = None,
) -> Reported:
    """Write the page `to`, and the tables that it is made of beside it: NAME.html, NAME_tables/.

    Without `keys`, neither the letters' keys nor the texts of their exceptions are in them. The
    bounds of the lengths are from so many `resamples`, drawn by `seed`. Each file is there when it
    is whole, and the page last. Raises `LakeError` where there is nothing to report, or the lake
    cannot be read, and `ReportError` where the page cannot be written.
    """
    # Here, not above: they take seconds to load, and who ingests needs none of them.
    from linear_retry.report.bundle import bundle
    from linear_retry.report.page import rendered

    page = Path(to)
    folder = page.with_name(f"{page.stem}_tables")
    check(page)
    with ThreadPoolExecutor(1) as pool:
        scripts = pool.submit(bundle)  # it takes seconds, as Spark does
        found = summaries(lake, keys=keys, resamples=resamples, seed=seed)
        text, advice = rendered(
            found.tables,
            scripts.result(),
            lake=lake.path,
            folder=f"{folder.name}/",
            made_at=made_at or datetime.now(UTC),
        )
    try:
        write_tables(found.tables, folder)
        with atomic_file(page) as file:
            file.write(text.encode())
    except OSError as error:
        raise ReportError(f"{page}: cannot be written ({error.strerror or error})") from error
    return Reported(str(page), str(folder), found.outages, found.letters, advice)


def check(page: Path) -> None:
    """Raises `ReportError` for what can be no page, before a large lake is read for it.

    And `ModuleNotFoundError` where what draws it is not installed.
    """
    import_module("linear_retry.report.bundle")
    if page.suffix != ".html":
        raise ReportError(f"{page}: give the page a name that ends with .html")
    if page.is_dir() or not os.access(page.parent, os.W_OK | os.X_OK):
        raise ReportError(f"{page}: cannot be written; name a file in a directory of yours")
