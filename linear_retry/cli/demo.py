"""Shows the consumer at work, and proves that it kept its guarantees."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
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
from linear_retry.demo.retry_topics.display import RetryLines, RetryScreen

if TYPE_CHECKING:
    from linear_retry.demo.evidence import Verdict
    from linear_retry.demo.run import DemoTopics


@dataclass(frozen=True, slots=True)
class _Story:
    """What one of the demos says and shows."""

    outages: str
    next_page: str
    screen: MakeDisplay
    lines: MakeDisplay

    def display(self) -> MakeDisplay:
        return self.screen if can_draw() else self.lines


_LINE = _Story(
    "the payment service goes down twice", "docs/getting-started.md", screen=Screen, lines=Lines
)
_RETRIES = _Story(
    "two of the customers' banks are down, and one comes back",
    "docs/guides/retry-off-the-line.md",
    screen=RetryScreen,
    lines=RetryLines,
)


def demo(
    bootstrap: str | None = None, as_json: bool = False, retry_topics: bool = False
) -> NoReturn:
    """Runs the demo; ends in `typer.Exit` with the exit code, whatever happens."""
    try:
        from linear_retry.demo import run as line
        from linear_retry.demo.retry_topics import run as retries
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        fail("the demo needs httpx: pip install 'linear-retry[demo]'", UNAVAILABLE)
    with exit_on_error():
        try:
            story = _RETRIES if retry_topics else _LINE
            if not as_json:
                typer.echo(f"400 orders on {bootstrap or 'an embedded broker'}; {story.outages}.")
            run = retries.run if retry_topics else line.run
            with _topics(bootstrap, retry_topics) as topics:
                verdicts = run(topics, JsonLines if as_json else story.display())
        except KeyboardInterrupt as error:
            notes = getattr(error, "__notes__", [])
            fail_interrupted(error, "".join(f": {note}" for note in notes))
    _show(verdicts, as_json, story.next_page)
    raise typer.Exit(DONE if all(verdict.holds for verdict in verdicts) else NEGATIVE)


def _topics(bootstrap: str | None, retry_topics: bool) -> AbstractContextManager[DemoTopics]:
    from linear_retry.demo.retry_topics.run import topics_on
    from linear_retry.demo.run import cluster_topics, embedded_topics

    def complain(text: str) -> None:
        typer.echo(text, err=True)

    if retry_topics:
        return topics_on(bootstrap, complain)
    return cluster_topics(bootstrap, complain) if bootstrap else embedded_topics()


def _show(verdicts: tuple[Verdict, ...], as_json: bool, next_page: str) -> None:
    if as_json:
        typer.echo(json_proof(verdicts))
    elif can_draw():
        Console(highlight=False).print(table(verdicts))
    else:
        # Wide enough for every figure in one line; FORCE_COLOR is for terminals.
        Console(color_system=None, width=110).print(table(verdicts))
    if not as_json:
        typer.echo(_summary(verdicts, next_page))


def _summary(verdicts: tuple[Verdict, ...], next_page: str) -> str:
    failed = [verdict.claim for verdict in verdicts if not verdict.holds]
    if failed:
        return f"Not proved: {'; '.join(failed)}. Please report it with the output above."
    return f"Proved: all {len(verdicts)} claims hold. Next: write your own consumer, {next_page}"
