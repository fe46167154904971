"""What can Spark do with dead letters and the journal, from a shell? `linear-retry spark`.

As everywhere in `cli`, what does the work is imported when it is called.
"""

from __future__ import annotations

from typing import Annotated

import typer

from linear_retry.cli.options.connection import Connection, with_option_groups
from linear_retry.cli.output.exit_codes import exit_on_error
from linear_retry.cli.spark import replaying, reporting, tuning
from linear_retry.cli.spark.needing import needing_pyspark
from linear_retry.cli.spark.options import LAKE, MASTER

app = typer.Typer(
    help="Learn from dead letters and outages, with Spark.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _options() -> None:
    """Learn from dead letters and outages, with Spark (pip install 'linear-retry[spark]')."""


@app.command()
@with_option_groups
def ingest(
    lake: LAKE,
    connection: Connection,
    dead_letters: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC", help="A dead-letter topic; as often as you have them."),
    ] = None,
    journal: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="The topic of the journal.")
    ] = None,
    continuous: Annotated[
        bool, typer.Option("--continuous", help="Never end: go on with what comes.")
    ] = False,
    every: Annotated[
        str, typer.Option(metavar="TIME", help="With --continuous: a batch so often.")
    ] = "5m",
    max_offsets: Annotated[
        int, typer.Option(metavar="N", min=1, help="At most so many records in a batch.")
    ] = 1_000_000,
    master: MASTER = None,
) -> None:
    """Copy dead letters and the journal into Parquet tables, each record once.

    What is new since the last time, and then it ends. Ended at any point and called again, nothing
    is missing and nothing is there twice: for Spark, and for whoever reads the files.

    Example: linear-retry spark ingest --bootstrap localhost:9092 --dead-letters orders.dlq
    --journal linear-retry.journal --lake lake

    Exit codes: 0, done; 2, wrong usage; 3, no broker answers, a topic or its permission is missing,
    the lake cannot be written or is of another topic, or there is no Java or PySpark; 130,
    Ctrl-C; 143, SIGTERM.
    """
    with exit_on_error(), needing_pyspark():
        from linear_retry.cli.spark.ingesting import ingest as run

        run(
            connection.keys(),
            lake,
            dead_letters or [],
            journal,
            every=_seconds(every) if continuous else None,
            max_offsets=max_offsets,
            master=master,
            as_json=connection.as_json,
        )


@app.command()
def outages(
    lake: LAKE,
    master: MASTER = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object: how many of each kind.")
    ] = False,
) -> None:
    """Make the table `outages` of the journal: each time a circuit was open, and how it ended.

    It is made anew of all that was ingested. docs/outages.md has its columns and kinds.

    Example: linear-retry spark outages --lake lake

    Exit codes: 0, done; 2, wrong usage; 3, no journal was ingested, the lake cannot be written, or
    there is no Java or PySpark; 130, Ctrl-C; 143, SIGTERM.
    """
    with exit_on_error(), needing_pyspark():
        from linear_retry.cli.spark.outages import outages as run

        run(lake, master=master, as_json=as_json)


app.command()(tuning.tune)
app.command()(replaying.replay)
app.command()(reporting.report)


def _seconds(text: str) -> float:
    from linear_retry.strategy.delays import duration_ms, shown

    ms = duration_ms(text)
    if ms is None or ms < 1000:
        raise typer.BadParameter(
            f'{shown(text)} is no time of a second or more; write "30s" or "5m"',
            param_hint="--every",
        )
    return ms / 1000
