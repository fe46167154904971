"""The command line `linear-retry`; its parts are imported when they are called.

A command's function is in a module that loads nothing heavy, with its options and help, and imports
the modules that do the work in its body: `--help` stays fast. Write with `typer.echo` or rich:
unlike `print`, they cope with a closed pipe (`| head`). Exit codes: `output/exit_codes.py`.
"""

import io
import sys
from typing import Annotated

import typer

import linear_retry
from linear_retry.cli import dlq
from linear_retry.cli.circuits import commands as circuits
from linear_retry.cli.options.connection import (
    BOOTSTRAP_NAMES,
    Connection,
    JournalSpan,
    with_option_groups,
)
from linear_retry.cli.output.exit_codes import MEANINGS
from linear_retry.cli.spark import commands as spark
from linear_retry.cli.store import inbox, outbox, scheduler
from linear_retry.cli.strategy import commands as strategy
from linear_retry.cli.strategy import simulate
from linear_retry.cli.topics import commands as topics
from linear_retry.cli.watch.console import console

app = typer.Typer(
    help="Consume a Kafka topic in order while a downstream dependency is unavailable.",
    epilog=f"Exit codes: {'; '.join(f'{code}, {said}' for code, said in MEANINGS.items())}.",
    no_args_is_help=True,
    # Plain help: rich need not be loaded, and it is the same in a pipe as on a terminal.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
strategy.app.command()(simulate.simulate)
app.add_typer(strategy.app, name="strategy")
app.add_typer(topics.app, name="topics")
app.add_typer(dlq.app, name="dlq")
app.add_typer(scheduler.app, name="scheduler")
app.add_typer(outbox.app, name="outbox")
app.add_typer(inbox.app, name="inbox")
app.add_typer(circuits.app, name="circuits")
app.add_typer(spark.app, name="spark")


def main() -> None:
    """The console script `linear-retry`. Always ends in SystemExit, with the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Characters that the terminal lacks are escaped, instead of causing a traceback.
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="linear-retry")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"linear-retry {linear_retry.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Consume a Kafka topic in order while a downstream dependency is unavailable."""


@app.command()
def demo(
    bootstrap: Annotated[
        str | None,
        typer.Option(
            *BOOTSTRAP_NAMES,
            metavar="HOST:PORT",
            help="A real cluster, in place of the embedded broker. The demo creates topics and a "
            "group named linear-retry-demo-... and removes them at the end.",
        ),
    ] = None,
    with_console: Annotated[
        bool,
        typer.Option(
            "--console",
            help="Serve the console beside it, with longer outages, until Ctrl-C.",
        ),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Each event, then the proof: one JSON object on each line.",
        ),
    ] = False,
) -> None:
    """Run a demo: 400 orders, two outages, and a proof.

    Takes 15 seconds; with --console 35, and then the page stays until Ctrl-C. On a terminal it
    draws a live picture; in a pipe it prints plain lines.

    Example: linear-retry demo --bootstrap localhost:9092

    Exit codes: 1, the proof fails; 3, no cluster answers, or a library is missing (pip install
    'linear-retry[demo]').
    """
    from linear_retry.cli.demo import demo as run

    run(bootstrap, as_json=as_json, with_console=with_console)


@app.command()
@with_option_groups
def watch(
    group: Annotated[str, typer.Option(metavar="GROUP", help="The consumer group.")],
    connection: Connection,
    span: JournalSpan,
) -> None:
    """Watch a group's members and circuits, live, until Ctrl-C.

    What is shown comes from the journal; Kafka is asked whether the group has a live member. On a
    terminal: a live picture. In a pipe: a line for each event, beginning with the last ten. With
    --json: an object for each event ("kind": "event"), beginning with the last hundred, then one
    for the state of the group ("kind": "group"). A member without events writes nothing, so
    "closed" with an old last event is healthy while the group is live. "silent" means that its
    partitions went to others and it has not reported that: it was killed, is stuck, or is cut off.

    Example: linear-retry watch --group billing --bootstrap localhost:9092
    """
    from linear_retry.cli.watch.watch import watch as run

    run(connection, span, group)


app.command()(console)
