"""How is the pipeline shown on a fleet? `demo --spark`."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from linear_retry.cli.output.exit_codes import (
    DONE,
    NEGATIVE,
    UNAVAILABLE,
    USAGE_ERROR,
    exit_on_error,
    fail,
)
from linear_retry.cli.spark.needing import OF_THE_EXTRA

if TYPE_CHECKING:
    from linear_retry.demo.evidence import Verdict
    from linear_retry.demo.fleet_run import Plan


def demo_spark(
    bootstrap: str | None, *, as_json: bool = False, plan: Plan | None = None
) -> NoReturn:
    """Run it; ends in `typer.Exit` with the exit code, whatever happens."""
    if bootstrap is None:
        fail("--spark needs a real cluster: name it with --bootstrap HOST:PORT", USAGE_ERROR)
    with exit_on_error():
        try:
            verdicts = _shown(bootstrap, plan, as_json=as_json)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in OF_THE_EXTRA:
                raise
            fail("--spark needs PySpark: pip install 'linear-retry[spark]'", UNAVAILABLE)
    raise typer.Exit(DONE if all(verdict.holds for verdict in verdicts) else NEGATIVE)


def _shown(bootstrap: str, plan: Plan | None, *, as_json: bool) -> tuple[Verdict, ...]:
    from linear_retry.demo.display.formats import json_proof
    from linear_retry.demo.fleet_run import Plan, run
    from linear_retry.spark.session import session

    def tell(text: str) -> None:
        typer.echo(text, err=as_json)

    directory = Path(tempfile.mkdtemp(prefix="linear-retry-demo-"))
    with ExitStack() as ending:

        def command(arguments: Sequence[str]) -> None:
            # One session for all, from the first on: its start is not what is shown here.
            ending.enter_context(session())
            tell(f"\n$ {shlex.join(['linear-retry', *arguments])}")
            with redirect_stdout(sys.stderr if as_json else sys.stdout):
                _call(arguments)

        verdicts = run(bootstrap, directory, command, tell, _complain, plan or Plan())
    if as_json:
        typer.echo(json_proof(verdicts))
    else:
        _show(verdicts, directory)
    return verdicts


def _show(verdicts: tuple[Verdict, ...], directory: Path) -> None:
    from rich.console import Console

    from linear_retry.cli.output.rows import is_terminal
    from linear_retry.demo.verdicts import table

    shown = table(verdicts, "found, beside what the model says is true")
    if is_terminal():
        Console(highlight=False).print(shown)
    else:
        Console(color_system=None, width=110).print(shown)
    for path in sorted(directory.iterdir()):
        typer.echo(f"{path}")


def _complain(text: str) -> None:
    typer.echo(text, err=True)


def _call(arguments: Sequence[str]) -> None:
    """As from a shell. Raises `typer.Exit` where it fails."""
    from linear_retry.cli import app

    code = app(list(arguments), prog_name="linear-retry", standalone_mode=False)
    if code:
        raise typer.Exit(code)
