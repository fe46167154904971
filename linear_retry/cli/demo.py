"""Shows the consumer at work, and proves that it kept its guarantees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
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


StoryName: TypeAlias = Literal["line", "retry-topics", "scheduler", "console"]


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


_OF_CONSOLE = ("argon2", "fastapi", "jinja2", "uvicorn")
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
    "console": _Story(
        "linear_retry.demo.on_a_page",
        "the payment service goes down twice, for 12 seconds",
        "docs/getting-started.md",
        screen=Screen,
        lines=Lines,
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
                show = partial(run.run, topics, JsonLines if as_json else story.display())
                verdicts = _beside_console(topics, show, as_json) if name == "console" else show()
        except KeyboardInterrupt as error:
            notes = getattr(error, "__notes__", [])
            fail_interrupted(error, "".join(f": {note}" for note in notes))
    _show(verdicts, as_json, story.next_page)
    raise typer.Exit(DONE if all(verdict.holds for verdict in verdicts) else NEGATIVE)


def _loaded(story: _Story) -> _Demo:
    try:
        if story is _STORIES["console"]:
            import_module("linear_retry.console.app")
        return cast("_Demo", import_module(story.module))
    except ModuleNotFoundError as error:
        if error.name not in ("httpx", "sqlalchemy", "alembic", *_OF_CONSOLE):
            raise
        extras = "console,demo" if error.name in _OF_CONSOLE else "demo"
        fail(f"the demo needs {error.name}: pip install 'linear-retry[{extras}]'", UNAVAILABLE)


def _beside_console(
    topics: DemoTopics, run: Callable[[], tuple[Verdict, ...]], as_json: bool
) -> tuple[Verdict, ...]:
    """Runs the demo under a console, which stays until Ctrl-C."""
    with _console(topics) as address:
        typer.echo(f"The console is at {address}; open it now.", err=as_json)
        verdicts = run()
        with suppress(KeyboardInterrupt):  # from the moment that it says so
            typer.echo("All orders are done. The console stays until Ctrl-C.", err=True)
            Event().wait()
    return verdicts


@contextmanager
def _console(topics: DemoTopics) -> Iterator[str]:
    from linear_retry.console.app import create_app
    from linear_retry.console.frame.services import Services
    from linear_retry.console.frame.settings import Settings
    from linear_retry.demo.on_a_page import journal_of
    from linear_retry.web import Access, serve

    with TemporaryDirectory(prefix="linear-retry-demo-") as state:
        settings = Settings(
            kafka={"bootstrap.servers": topics.bootstrap, "log_level": 0},
            state=Path(state),
            journal=journal_of(topics),
            dead_letters=(topics.dead_letters,),
        )
        with (
            Services(settings, Access()) as services,
            serve(create_app(services), services.access, 0) as server,
        ):
            try:
                yield f"http://127.0.0.1:{server.port}"
            finally:
                services.live.hub.close()


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
