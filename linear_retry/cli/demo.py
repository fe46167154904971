"""Shows the consumer at work, and proves that it kept its guarantees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from types import ModuleType
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
from linear_retry.demo.display import JsonLines, Lines, Screen, json_proof, table

if TYPE_CHECKING:
    from linear_retry.demo.evidence import Verdict
    from linear_retry.demo.run import DemoTopics

_OF_CONSOLE = ("argon2", "fastapi", "jinja2", "uvicorn")


def demo(bootstrap: str | None, *, as_json: bool, with_console: bool) -> NoReturn:
    """Runs the demo; ends in `typer.Exit` with the exit code, whatever happens."""
    of_demo = _module_of_demo(with_console=with_console)
    make_display = JsonLines if as_json else Screen if can_draw() else Lines
    with exit_on_error():
        try:
            if not as_json:
                where = bootstrap or "an embedded broker"
                how_long = ", for 12 seconds" if with_console else ""
                typer.echo(f"400 orders on {where}; the payment service goes down twice{how_long}.")
            with of_demo.topics_on(bootstrap, lambda text: typer.echo(text, err=True)) as topics:
                show = partial(of_demo.run, topics, make_display)
                if with_console:
                    show = partial(show, of_demo.LONG_OUTAGES)
                    verdicts = _beside_console(topics, show, as_json)
                else:
                    verdicts = show()
        except KeyboardInterrupt as error:
            notes = getattr(error, "__notes__", [])
            fail_interrupted(error, "".join(f": {note}" for note in notes))
    _show(verdicts, as_json)
    raise typer.Exit(DONE if all(verdict.holds for verdict in verdicts) else NEGATIVE)


def _module_of_demo(*, with_console: bool) -> ModuleType:
    """Imports what the demo needs, or ends the command with what to install."""
    try:
        if with_console:
            import_module("linear_retry.console.app")
        return import_module("linear_retry.demo.run")
    except ModuleNotFoundError as error:
        if error.name not in ("httpx", *_OF_CONSOLE):
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
    from linear_retry.console.state.settings import Settings
    from linear_retry.web import Access, serve

    with TemporaryDirectory(prefix="linear-retry-demo-") as state:
        settings = Settings(
            kafka={"bootstrap.servers": topics.bootstrap, "log_level": 0},
            state=Path(state),
            journal=topics.journal,
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
    next_page = "docs/getting-started.md"
    return f"Proved: all {len(verdicts)} claims hold. Next: write your own consumer, {next_page}"
