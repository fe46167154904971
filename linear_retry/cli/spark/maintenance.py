"""Compacts the files of the lake's tables: `spark optimize`."""

from dataclasses import asdict
from typing import Annotated

import typer

from linear_retry.cli.output.exit_codes import exit_on_error
from linear_retry.cli.output.rows import plural, write_json
from linear_retry.cli.spark.options import LAKE, MASTER, require_pyspark


def optimize(
    lake: LAKE,
    master: MASTER = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object for each table, each on a line.")
    ] = False,
) -> None:
    """Compact the small files of the lake's tables.

    Also removes the files that were replaced more than a week ago. Readers may run meanwhile,
    and an ingest too, but not on S3. An ingest compacts its own small files once there are fifty,
    but removes none.

    Example: linear-retry spark optimize --lake lake
    """
    with exit_on_error(), require_pyspark():
        from linear_retry.spark import Lake
        from linear_retry.spark import optimize as run
        from linear_retry.spark.session import session

        with session(master) as spark:
            tables = run(Lake(spark, lake))
        if as_json:
            write_json([asdict(each) for each in tables])
        else:
            for each in tables:
                size_mb = each.size_bytes / 1e6
                files = f"{plural(each.files_before, 'file')} before, {each.files} now"
                typer.echo(f"{each.table}: {files}, {size_mb:.1f} MB")
