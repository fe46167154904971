"""From topics to tables, a page and proposals: `spark ingest`, `episodes`, `report` and `run`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typer

from linear_retry.cli.options.connection import Connection
from linear_retry.cli.output.progress import ProgressBar
from linear_retry.cli.output.rows import plural, write_json
from linear_retry.cli.spark import comparison, tune
from linear_retry.spark import EPISODES, JOURNAL, Ingested, Lake, Reported, Tuned, update_episodes
from linear_retry.spark import ingest as ingest_into
from linear_retry.spark import optimize as optimize_lake
from linear_retry.spark import report as report_on
from linear_retry.spark import tune as tune_in
from linear_retry.spark.ingestion.sources import find_sources
from linear_retry.spark.reporting.report import check
from linear_retry.spark.session import session
from linear_retry.strategy.tuning.solver import Conditions


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
        done = ingest_into(spark, config, lake, **topics, **batches, progress=progress)
    if connection.as_json:
        write_json([asdict(each) for each in done])
    else:
        for each in done:
            typer.echo(_ingested_line(each))


def episodes(lake: str, master: str | None, *, as_json: bool) -> None:
    """Makes the table, and prints a line or an object."""
    with session(master) as spark:
        kinds = update_episodes(Lake(spark, lake))
    if as_json:
        write_json([kinds])
    else:
        typer.echo(_episodes_line(kinds))


@dataclass(frozen=True, slots=True)
class Page:
    """The page to write, if any, and what its proposals must do, as of `tune`."""

    to: Path | None
    keys: bool
    probe_cost_s: float
    conditions: Conditions

    def check(self) -> None:
        """Raises what `report` would raise after seconds: before Spark starts."""
        if self.to is not None:
            check(self.to)

    def write(self, lake: Lake, to: Path, proposals: Sequence[Tuned] | None = None) -> Reported:
        """Writes it; `proposals` are what `tune` found, if it has run."""
        return report_on(
            lake,
            to,
            keys=self.keys,
            probe_cost_s=self.probe_cost_s,
            cover=self.conditions.cover,
            proposals=proposals,
        )


def report(lake: str, page: Page, to: Path, master: str | None, *, as_json: bool) -> None:
    """Writes the page, and prints a line or an object."""
    page.check()
    with session(master) as spark:
        done = page.write(Lake(spark, lake), to)
    if as_json:
        write_json([asdict(done)])
    else:
        typer.echo(_report_line(done))


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
            done = ingest_into(spark, config, where, **sources, progress=progress)
        found["ingested"] = [asdict(each) for each in done]
        for each in done:
            show(_ingested_line(each))
        found["episodes"] = update_episodes(where)
        show(_episodes_line(found["episodes"]))
        episodes, entries = where.table(EPISODES), where.table(JOURNAL)
        tuned = tune_in(episodes, page.probe_cost_s, page.conditions, journal=entries)
        if page.to is not None:
            written = page.write(where, page.to, tuned)
            found["report"] = asdict(written)
            show(_report_line(written))
        found["tuned"] = [comparison.tuned_json(one) for one in tuned]
        if not connection.as_json:
            tune.show(tuned, page.conditions)
    if connection.as_json:
        write_json([found])


def optimize(lake: str, master: str | None, *, as_json: bool) -> None:
    """Compacts the tables' files, and prints a line or an object for each table."""
    with session(master) as spark:
        tables = optimize_lake(Lake(spark, lake))
    if as_json:
        write_json([asdict(each) for each in tables])
        return
    for each in tables:
        size_mb = each.size_bytes / 1e6
        files = f"{plural(each.files_before, 'file')} before, {each.files} now"
        typer.echo(f"{each.table}: {files}, {size_mb:.1f} MB")


def _ingested_line(each: Ingested) -> str:
    """How many rows a topic has become, and what is remarkable about them."""
    remarks = [f"{each.table}: {plural(each.rows, 'row')} of {each.topic}"]
    if each.unreadable:
        remarks.append(f"{each.unreadable} with problems (column `problems`)")
    if each.gone:
        remarks.append(f"{each.gone} offsets were removed before they could be read")
    return "; ".join(remarks)


def _episodes_line(kinds: dict[str, int]) -> str:
    """How many there are of each kind."""
    parts = ", ".join(f"{number} {kind}" for kind, number in kinds.items() if number)
    rows = plural(sum(kinds.values()), "row")
    return f"episodes: {rows} ({parts})" if parts else f"episodes: {rows}"


def _report_line(done: Reported) -> str:
    """Where the page is, and what it shows."""
    return (
        f"{done.page}: {_count(done.outages, 'outage')}, {_count(done.letters, 'dead letter')}, "
        f"{plural(done.advice, 'piece')} of advice; the tables are in {done.tables}"
    )


def _count(number: int | None, noun: str) -> str:
    return f"no table of {noun}s" if number is None else plural(number, noun)
