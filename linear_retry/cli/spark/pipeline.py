"""Runs the whole pipeline in one Spark session: `spark run`."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import typer

from linear_retry.cli.options.connection import Connection
from linear_retry.cli.output.progress import ProgressBar
from linear_retry.cli.output.rows import write_json
from linear_retry.cli.spark import comparison, tables, topics, tune
from linear_retry.cli.spark.tables import Page
from linear_retry.spark import EPISODES, JOURNAL, Lake, ingest, update_episodes
from linear_retry.spark import tune as tune_in
from linear_retry.spark.ingestion.sources import find_sources
from linear_retry.spark.session import session


def run(
    connection: Connection, lake: str, sources: Mapping[str, Any], page: Page, master: str | None
) -> None:
    """Ingests, makes the episodes, the page and the proposals, and prints each as it is done.

    With `--json`, one object at the end. `sources` are arguments of `linear_retry.spark.ingest`.
    """
    config = connection.keys()
    # Asked before Spark starts: a wrong address or page is reported in seconds.
    find_sources(config, **sources)
    page.check()
    found: dict[str, Any] = {}

    def show(line: str) -> None:
        if not connection.as_json:
            typer.echo(line)

    with session(master) as spark:
        where = Lake(spark, lake)
        with ProgressBar("ingesting") as progress:
            done = ingest(spark, config, where, **sources, progress=progress)
        found["ingested"] = [asdict(each) for each in done]
        for each in done:
            show(topics.ingested_line(each))
        found["episodes"] = update_episodes(where)
        show(tables.episodes_line(found["episodes"]))
        episodes, entries = where.table(EPISODES), where.table(JOURNAL)
        tuned = tune_in(episodes, page.probe_cost_s, page.conditions, journal=entries)
        if page.to is not None:
            written = page.write(where, page.to, tuned)
            found["report"] = asdict(written)
            show(tables.report_line(written))
        found["tuned"] = [comparison.tuned_json(one) for one in tuned]
        if not connection.as_json:
            tune.show(tuned, page.conditions)
    if connection.as_json:
        write_json([found])
