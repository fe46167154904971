"""Shows the consumer at work, and proves that it kept its guarantees."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal, NoReturn, Protocol, TypeAlias, cast

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
from linear_retry.demo.off_the_line.display import RetryLines, RetryScreen

if TYPE_CHECKING:
    from linear_retry.demo.evidence import Verdict
    from linear_retry.demo.run import DemoTopics


StoryName: TypeAlias = Literal["line", "retry-topics", "scheduler"]


class _Demo(Protocol):
    """The module of a demo."""

    def topics_on(
        self, bootstrap: str | None, complain: Callable[[str], object]
    ) -> AbstractContextManager[DemoTopics]: ...

    def run(self, topics: DemoTopics, make_display: MakeDisplay) -> tuple[Verdict, ...]: ...


@dataclass(frozen=True, slots=True)
class _Story:
    """What one of the demos says and shows, and the module that runs it."""

    module: str
    outages: str
    next_page: str
    screen: MakeDisplay
    lines: MakeDisplay

    def display(self) -> MakeDisplay:
        return self.screen if can_draw() else self.lines


_BANKS = "two of the customers' banks are down, and one comes back"
_STORIES = {
    "line": _Story(
        "linear_retry.demo.run",
        "the payment service goes down twice",
        "docs/getting-started.md",
        screen=Screen,
        lines=Lines,
    ),
    "retry-topics": _Story(
        "linear_retry.demo.off_the_line.run",
        _BANKS,
        "docs/guides/retry-off-the-line.md",
        screen=RetryScreen,
        lines=RetryLines,
    ),
    "scheduler": _Story(
        "linear_retry.demo.off_the_line.scheduled",
        _BANKS,
        "docs/guides/scheduler.md",
        screen=RetryScreen,
        lines=RetryLines,
    ),
}


def demo(bootstrap: str | None = None, as_json: bool = False, name: StoryName = "line") -> NoReturn:
    """Runs the demo; ends in `typer.Exit` with the exit code, whatever happens."""
    story = _STORIES[name]
    run = _loaded(story)
    with exit_on_error():
        try:
            if not as_json:
                typer.echo(f"400 orders on {bootstrap or 'an embedded broker'}; {story.outages}.")
            with run.topics_on(bootstrap, lambda text: typer.echo(text, err=True)) as topics:
                verdicts = run.run(topics, JsonLines if as_json else story.display())
        except KeyboardInterrupt as error:
            notes = getattr(error, "__notes__", [])
            fail_interrupted(error, "".join(f": {note}" for note in notes))
    _show(verdicts, as_json, story.next_page)
    raise typer.Exit(DONE if all(verdict.holds for verdict in verdicts) else NEGATIVE)


def _loaded(story: _Story) -> _Demo:
    try:
        return cast("_Demo", import_module(story.module))
    except ModuleNotFoundError as error:
        if error.name not in ("httpx", "sqlalchemy", "alembic"):
            raise
        fail(f"the demo needs {error.name}: pip install 'linear-retry[demo]'", UNAVAILABLE)


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
