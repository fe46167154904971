"""Ingests topics into the lake and prints what came of it: `spark ingest`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import typer

from linear_retry.cli.output.progress import ProgressBar
from linear_retry.cli.output.rows import plural, write_json
from linear_retry.spark import Ingested
from linear_retry.spark import ingest as run
from linear_retry.spark.ingestion.sources import find_sources
from linear_retry.spark.session import session


def ingest(
    config: Mapping[str, Any],
    lake: str,
    dead_letters: list[str],
    journal: str | None,
    *,
    every_s: float | None,
    max_offsets: int,
    master: str | None,
    as_json: bool,
) -> None:
    """Ingests, and prints a line or an object for each topic."""
    # Asked before Spark starts: a wrong address is reported in seconds.
    find_sources(config, dead_letters, journal)
    with ProgressBar("ingesting") as progress, session(master) as spark:
        done = run(
            spark,
            config,
            lake,
            dead_letters=dead_letters,
            journal=journal,
            every_s=every_s,
            max_offsets=max_offsets,
            progress=progress,
        )
    if as_json:
        write_json([asdict(each) for each in done])
    else:
        for each in done:
            typer.echo(f"{each.table}: {plural(each.rows, 'row')} of {each.topic}{_remarks(each)}")


def _remarks(each: Ingested) -> str:
    remarks = []
    if each.unreadable:
        remarks.append(f"{each.unreadable} with problems (column `problems`)")
    if each.gone:
        remarks.append(f"{each.gone} offsets were removed before they could be read")
    return "".join(f"; {remark}" for remark in remarks)
