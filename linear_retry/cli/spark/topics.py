"""Ingests topics into the lake: `spark ingest`."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import typer

from linear_retry.cli.options.connection import Connection
from linear_retry.cli.output.progress import ProgressBar
from linear_retry.cli.output.rows import plural, write_json
from linear_retry.spark import Ingested
from linear_retry.spark import ingest as run
from linear_retry.spark.ingestion.sources import find_sources
from linear_retry.spark.session import session


def ingest(
    connection: Connection,
    lake: str,
    topics: Mapping[str, Any],
    batches: Mapping[str, Any],
    master: str | None,
) -> None:
    """Ingests, and prints a line or an object for each topic.

    `topics` and `batches` are arguments of `linear_retry.spark.ingest`.
    """
    config = connection.keys()
    # Asked before Spark starts: a wrong address is reported in seconds.
    find_sources(config, **topics)
    with ProgressBar("ingesting") as progress, session(master) as spark:
        done = run(spark, config, lake, **topics, **batches, progress=progress)
    if connection.as_json:
        write_json([asdict(each) for each in done])
    else:
        for each in done:
            typer.echo(ingested_line(each))


def ingested_line(each: Ingested) -> str:
    """How many rows a topic has become, and what is remarkable about them."""
    remarks = [f"{each.table}: {plural(each.rows, 'row')} of {each.topic}"]
    if each.unreadable:
        remarks.append(f"{each.unreadable} with problems (column `problems`)")
    if each.gone:
        remarks.append(f"{each.gone} offsets were removed before they could be read")
    return "; ".join(remarks)
