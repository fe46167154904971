"""The commands of `linear-retry spark`, which import their implementation when called."""

from pathlib import Path
from typing import Annotated

import typer

from linear_retry.cli.options.connection import Connection, with_option_groups
from linear_retry.cli.options.values import RULE, length_ms
from linear_retry.cli.output.exit_codes import exit_on_error
from linear_retry.cli.spark import scheduler
from linear_retry.cli.spark.options import (
    COVER,
    LAKE,
    MASTER,
    NO_KEYS,
    PROBE_COST,
    ProposalFile,
    RecordedOutages,
    require_pyspark,
)
from linear_retry.records.durations import duration_ms
from linear_retry.strategy.delays import shown
from linear_retry.strategy.tuning.solver import DEFAULT_COVER, Conditions

app = typer.Typer(
    help="Learn from dead letters and outages with Spark.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(scheduler.app, name="scheduler")


@app.command()
@with_option_groups
def ingest(
    lake: LAKE,
    connection: Connection,
    dead_letters: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC", help="A dead-letter topic. May be repeated."),
    ] = None,
    journal: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="The topic of the journal.")
    ] = None,
    continuous: Annotated[
        bool, typer.Option("--continuous", help="Keep running, and copy new records as they come.")
    ] = False,
    every: Annotated[
        str, typer.Option(metavar="TIME", help="With --continuous: the time between batches.")
    ] = "5m",
    max_offsets: Annotated[
        int, typer.Option(metavar="N", min=1, help="At most N records in a batch.")
    ] = 1_000_000,
    master: MASTER = None,
) -> None:
    """Copy dead letters and the journal into Delta tables.

    Copies what is new since the last run, each record exactly once, even if a run was interrupted.

    Example: linear-retry spark ingest --bootstrap localhost:9092 --dead-letters orders.dlq
    --journal linear-retry.journal --lake lake
    """
    with exit_on_error(), require_pyspark():
        from linear_retry.cli.spark.pipeline import ingest as run

        topics = {"dead_letters": dead_letters or [], "journal": journal}
        every_s = _seconds(every) if continuous else None
        run(connection, lake, topics, {"every_s": every_s, "max_offsets": max_offsets}, master)


@app.command()
def episodes(
    lake: LAKE,
    master: MASTER = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object: the count of each kind.")
    ] = False,
) -> None:
    """Derive the table `episodes` from the journal.

    One row for each time a circuit was open, and how it ended. Reads what was ingested since the
    last run, at first all of it. docs/spark/outages.md has its columns.

    Example: linear-retry spark episodes --lake lake
    """
    with exit_on_error(), require_pyspark():
        from linear_retry.cli.spark.pipeline import episodes as run

        run(lake, master, as_json=as_json)


@app.command()
@with_option_groups
def tune(
    lake: LAKE,
    probe_cost: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="What one attempt costs, as time spent waiting after an outage has ended: 5, or "
            "500ms.",
        ),
    ],
    recorded: RecordedOutages,
    target: ProposalFile,
    cover: COVER = DEFAULT_COVER,
    most: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="At most N delays.")] = 50,
    shortest: Annotated[
        str, typer.Option(metavar="TIME", help="The shortest delay allowed: 1s, or 500ms.")
    ] = "1s",
    rule: RULE = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object for each group, each on a line.")
    ] = False,
) -> None:
    """Propose the delays that would have cost least.

    The delays are fitted to the earlier two thirds of a group's outages and compared with its
    current delays on the rest. Without --group, each group gets a proposal; --to then needs a lake
    of one group. With --rule N, where --current is a file of rules: for the outages whose error the
    Nth takes. docs/spark/tuning.md defines the cost, and says when not to trust it.

    Example: linear-retry spark tune --lake lake --group billing --probe-cost 5 --cover 0.99
    --to strategies/billing.json

    Exit codes: 1, the file of --current is invalid; 5, there are too few outages for a proposal; 7,
    a proposal covers less than --cover of the outages that it was not made from. With 5 and 7,
    nothing is written.
    """
    cost_ms = length_ms(probe_cost, "--probe-cost")
    if rule is not None and recorded.current is None:
        raise typer.BadParameter("--rule is one of the file of --current; give --current FILE")
    with exit_on_error(), require_pyspark():
        from linear_retry.cli.spark.tune import tune as run

        conditions = Conditions(cover, most, length_ms(shortest, "--shortest"))
        run(lake, cost_ms, conditions, recorded, rule, target, as_json=as_json)


@app.command()
def report(
    lake: LAKE,
    to: Annotated[
        Path, typer.Option(metavar="FILE", help="The page to write; its name ends with .html.")
    ],
    no_keys: NO_KEYS = False,
    probe_cost: PROBE_COST = "10s",
    cover: COVER = DEFAULT_COVER,
    master: MASTER = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object: the files, and counts.")
    ] = False,
) -> None:
    """Write an HTML report on outages and dead letters.

    One page with charts and advice, which needs no network. Its tables are written beside it as CSV
    and Parquet, into report_tables/ if FILE is report.html. An existing page is replaced.
    docs/spark/report.md says what it shows.

    Example: linear-retry spark report --lake lake --to report.html
    """
    price_s = length_ms(probe_cost, "--probe-cost") / 1000
    with exit_on_error(), require_pyspark():
        from linear_retry.cli.spark.pipeline import Page
        from linear_retry.cli.spark.pipeline import report as run

        page = Page(to, not no_keys, price_s, Conditions(cover))
        run(lake, page, to, master, as_json=as_json)


@app.command()
@with_option_groups
def run(
    lake: LAKE,
    connection: Connection,
    journal: Annotated[str, typer.Option(metavar="TOPIC", help="The topic of the journal.")],
    dead_letters: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC", help="A dead-letter topic. May be repeated."),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the report to this page, NAME.html."),
    ] = None,
    no_keys: NO_KEYS = False,
    probe_cost: PROBE_COST = "10s",
    cover: COVER = DEFAULT_COVER,
    master: MASTER = None,
) -> None:
    """Run ingest, episodes, report and tune in one Spark session.

    Ingests what is new, makes the episodes, writes the report with --to, and prints the proposed
    delays of each group. Starts Spark once, which takes each command alone 15 to 20 seconds. With
    --json, one object at the end, with the results of all.

    Example: linear-retry spark run --bootstrap localhost:9092 --dead-letters orders.dlq
    --journal linear-retry.journal --lake lake --to report.html --probe-cost 5
    """
    price_s = length_ms(probe_cost, "--probe-cost") / 1000
    with exit_on_error(), require_pyspark():
        from linear_retry.cli.spark.pipeline import Page
        from linear_retry.cli.spark.pipeline import run as run_all

        sources = {"dead_letters": dead_letters or [], "journal": journal}
        page = Page(to, not no_keys, price_s, Conditions(cover))
        run_all(connection, lake, sources, page, master)


@app.command()
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
        from linear_retry.cli.spark.pipeline import optimize as run

        run(lake, master, as_json=as_json)


def _seconds(text: str) -> float:
    ms = duration_ms(text)
    if ms is None or ms < 1000:
        raise typer.BadParameter(
            f'{shown(text)} is not a duration of at least a second; write "30s" or "5m"',
            param_hint="--every",
        )
    return ms / 1000
