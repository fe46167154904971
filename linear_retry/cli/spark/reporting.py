"""Which page shows what the lake says? `spark report`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from linear_retry.cli.output.exit_codes import exit_on_error
from linear_retry.cli.spark.needing import needing_pyspark
from linear_retry.cli.spark.options import LAKE, MASTER


def report(
    lake: LAKE,
    to: Annotated[
        Path, typer.Option(metavar="FILE", help="The page: a name that ends with .html.")
    ],
    no_keys: Annotated[
        bool,
        typer.Option(
            "--no-keys",
            help="Leave out the letters' keys, and the texts of exceptions, which may quote them.",
        ),
    ] = False,
    master: MASTER = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object: the files, and how much they tell.")
    ] = False,
) -> None:
    """Write one page of HTML about outages and dead letters, with charts and advice.

    It needs no network to be read. Its tables lie beside it as CSV and Parquet, in report_tables/
    where FILE is report.html. A page of that name is replaced. docs/report.md says what it shows.

    Example: linear-retry spark report --lake lake --to report.html

    Exit codes: 0, done; 2, wrong usage; 3, the lake has neither outages nor dead letters or cannot
    be read, the page cannot be written, or there is no Java or PySpark; 130, Ctrl-C; 143,
    SIGTERM.
    """
    with exit_on_error(), needing_pyspark():
        from linear_retry.cli.output.rows import write_json
        from linear_retry.spark import Lake
        from linear_retry.spark import report as run
        from linear_retry.spark.report.report import check
        from linear_retry.spark.session import session

        check(to)  # before Spark is begun, which takes seconds
        with session(master) as spark:
            done = run(Lake(spark, lake.rstrip("/")), to, keys=not no_keys)
        if as_json:
            write_json([asdict(done)])
        else:
            typer.echo(
                f"{done.page}: {_count(done.outages, 'outage')}, "
                f"{_count(done.letters, 'dead letter')}, "
                f"{done.advice} of advice; the tables are in {done.tables}"
            )


def _count(number: int | None, noun: str) -> str:
    return f"no table of {noun}s" if number is None else f"{number} {noun}{'s' * (number != 1)}"
