"""Shows the consumer at work, and proves that it kept its promises."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NoReturn

import typer

from linear_retry.cli.output.exit_codes import (
    DONE,
    NEGATIVE,
    UNAVAILABLE,
    code_of_signal,
    exit_on_error,
    fail,
)
from linear_retry.cli.output.rows import can_draw

if TYPE_CHECKING:
    from linear_retry.demo.display.watching import Display
    from linear_retry.demo.evidence import Verdict
    from linear_retry.demo.record import Record
    from linear_retry.demo.run import DemoTopics
    from linear_retry.retry.circuits import CircuitView
    from linear_retry.scope import Scope


def demo(bootstrap: str | None = None, as_json: bool = False) -> NoReturn:
    """Runs the demo; ends in `typer.Exit` with the exit code, whatever happens."""
    try:
        from linear_retry.demo.run import Interrupted, run
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        fail("the demo needs httpx: pip install 'linear-retry[demo]'", UNAVAILABLE)
    with exit_on_error():
        try:
            with _topics(bootstrap, as_json) as topics:
                verdicts = run(topics, _display_of(as_json))
        except Interrupted as interrupted:
            fail(str(interrupted), code_of_signal(interrupted.number))
    _show(verdicts, as_json)
    raise typer.Exit(DONE if all(verdict.holds for verdict in verdicts) else NEGATIVE)


def _topics(bootstrap: str | None, as_json: bool) -> AbstractContextManager[DemoTopics]:
    from linear_retry.demo.run import cluster_topics, embedded_topics

    where = "an embedded broker" if bootstrap is None else bootstrap
    if not as_json:
        typer.echo(f"400 orders on {where}; the payment service goes down twice.")
    if bootstrap is None:
        return embedded_topics()
    return cluster_topics(bootstrap, lambda text: typer.echo(text, err=True))


def _display_of(
    as_json: bool,
) -> Callable[[Record, Callable[[], Mapping[Scope, CircuitView]]], Display]:
    from linear_retry.demo.display.lines import JsonLines, Lines

    def make(record: Record, circuits: Callable[[], Mapping[Scope, CircuitView]]) -> Display:
        if as_json:
            return JsonLines(sys.stdout, record)
        if not can_draw():
            return Lines(sys.stdout, record)
        from rich.console import Console

        from linear_retry.demo.display.screen import Screen

        return Screen(Console(highlight=False), record, circuits)

    return make


def _show(verdicts: tuple[Verdict, ...], as_json: bool) -> None:
    if as_json:
        from linear_retry.demo.display.verdicts import json_proof

        typer.echo(json_proof(verdicts))
        return
    from rich.console import Console

    from linear_retry.demo.display.verdicts import table

    if can_draw():
        Console(highlight=False).print(table(verdicts))
    else:
        # Wide enough for every figure in one line; FORCE_COLOR is for terminals.
        Console(color_system=None, width=110).print(table(verdicts))
