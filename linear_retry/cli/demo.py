"""Shows the consumer at work, and proves that it kept its guarantees."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NoReturn

import typer
from rich.console import Console

from linear_retry.cli.output.exit_codes import (
    DONE,
    NEGATIVE,
    UNAVAILABLE,
    exit_on_error,
    fail,
    fail_interrupted,
)
from linear_retry.cli.output.rows import can_draw
from linear_retry.demo.display.lines import JsonLines, Lines
from linear_retry.demo.display.screen import Screen
from linear_retry.demo.display.verdicts import json_proof, table
from linear_retry.demo.display.watching import MakeDisplay

if TYPE_CHECKING:
    from linear_retry.demo.evidence import Verdict
    from linear_retry.demo.run import DemoTopics


def demo(bootstrap: str | None = None, as_json: bool = False) -> NoReturn:
    """Runs the demo; ends in `typer.Exit` with the exit code, whatever happens."""
    try:
        from linear_retry.demo.run import run
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        fail("the demo needs httpx: pip install 'linear-retry[demo]'", UNAVAILABLE)
    with exit_on_error():
        try:
            with _topics(bootstrap, as_json) as topics:
                verdicts = run(topics, _display_of(as_json))
        except KeyboardInterrupt as error:
            notes = getattr(error, "__notes__", [])
            fail_interrupted(error, "".join(f": {note}" for note in notes))
    _show(verdicts, as_json)
    raise typer.Exit(DONE if all(verdict.holds for verdict in verdicts) else NEGATIVE)


def _topics(bootstrap: str | None, as_json: bool) -> AbstractContextManager[DemoTopics]:
    from linear_retry.demo.run import cluster_topics, embedded_topics

    where = bootstrap or "an embedded broker"
    if not as_json:
        typer.echo(f"400 orders on {where}; the payment service goes down twice.")
    if not bootstrap:
        return embedded_topics()
    return cluster_topics(bootstrap, lambda text: typer.echo(text, err=True))


def _display_of(as_json: bool) -> MakeDisplay:
    if as_json:
        return JsonLines
    return Screen if can_draw() else Lines


def _show(verdicts: tuple[Verdict, ...], as_json: bool) -> None:
    if as_json:
        typer.echo(json_proof(verdicts))
    elif can_draw():
        Console(highlight=False).print(table(verdicts))
    else:
        # Wide enough for every figure in one line; FORCE_COLOR is for terminals.
        Console(color_system=None, width=110).print(table(verdicts))
    if not as_json:
        typer.echo(_summary(verdicts))


def _summary(verdicts: tuple[Verdict, ...]) -> str:
    failed = [verdict.claim for verdict in verdicts if not verdict.holds]
    if failed:
        return f"Not proved: {'; '.join(failed)}. Please report it with the output above."
    return (
        f"Proved: all {len(verdicts)} claims hold. Next: write your own consumer, "
        "docs/getting-started.md"
    )
