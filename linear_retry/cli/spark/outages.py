"""How is it told what the outages came to? `spark outages`."""

from __future__ import annotations

import typer

from linear_retry.cli.output.rows import write_json
from linear_retry.spark import Lake
from linear_retry.spark import outages as run
from linear_retry.spark.session import session


def outages(lake: str, *, master: str | None, as_json: bool) -> None:
    """Make the table, and say how many there are of each kind."""
    with session(master) as spark:
        kinds = run(Lake(spark, lake.rstrip("/")))
    if as_json:
        write_json([kinds])
    else:
        typer.echo(f"outages: {_sum(kinds)}")


def _sum(kinds: dict[str, int]) -> str:
    parts = [f"{count} {kind}" for kind, count in kinds.items() if count]
    whole = sum(kinds.values())
    rows = f"{whole} row{'' if whole == 1 else 's'}"
    return f"{rows} ({', '.join(parts)})" if parts else rows
