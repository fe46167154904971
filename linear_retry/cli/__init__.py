"""What can be done from a shell? `linear-retry`, whose parts are imported when they are called.

To add a command, write its function here, with its options and its help, and import the module that
does the work in the function's body: `--help` then stays fast whatever that module loads.

    @app.command()
    def demo(bootstrap: Annotated[str | None, typer.Option(help="HOST:PORT")] = None) -> None:
        from linear_retry.cli.demo import demo as run

        run(bootstrap)

A group of commands that loads nothing heavy is a Typer app of its own: `app.add_typer(...)`. Write
with `typer.echo` or rich: unlike `print`, they cope with a reader that has gone (`| head`).

Exit codes of every command: 0, done; 1, the answer is no (a bad strategy), or whoever read the
output has gone; 2, wrong usage; 130, Ctrl-C.
"""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from linear_retry.cli import strategy

app = typer.Typer(
    help="Consume a Kafka topic in order while the thing behind it is down.",
    no_args_is_help=True,
    add_completion=False,
    # Plain help: no need to load rich for it, and the same in a pipe as on a terminal.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(strategy.app, name="strategy")


def main() -> None:
    """The console script `linear-retry`. Always ends in SystemExit, with the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A description in letters that the terminal lacks is shown escaped, not as a traceback.
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="linear-retry")


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"linear-retry {version('linear-retry')}")
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
    """Consume a Kafka topic in order while the thing behind it is down."""
