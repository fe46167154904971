"""How is ingesting told? `spark ingest`."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from types import FrameType
from typing import Any

import typer

from linear_retry.cli.output.progress import ProgressBar
from linear_retry.cli.output.rows import plural, write_json
from linear_retry.spark import Ingested
from linear_retry.spark import ingest as run
from linear_retry.spark.ingestion.sources import found, wanted
from linear_retry.spark.session import ENDING, Handler, session


def ingest(
    config: Mapping[str, Any],
    lake: str,
    dead_letters: list[str],
    journal: str | None,
    *,
    every: float | None,
    max_offsets: int,
    master: str | None,
    as_json: bool,
) -> None:
    """Ingest, and say what came of it."""
    # Asked before Spark is begun: a wrong address is told in seconds.
    found(config, wanted(dead_letters, journal))
    with (
        ProgressBar("ingesting") as bar,
        session(master) as spark,
        _signals_between_calls() as check,
    ):

        def progress(behind: int, total: int) -> None:
            check()
            bar(behind, total)

        done = run(
            spark,
            config,
            lake,
            dead_letters=dead_letters,
            journal=journal,
            every_s=every,
            max_offsets=max_offsets,
            progress=progress,
        )
    if as_json:
        write_json([asdict(each) for each in done])
    else:
        _say(done)


@contextmanager
def _signals_between_calls() -> Iterator[Callable[[], None]]:
    """What is given raises `KeyboardInterrupt` once Ctrl-C was pressed; a second one does at once.

    Inside a call to the JVM an exception would break the connection, and PySpark's own handler
    makes a call inside the call. So with SIGTERM and SIGHUP, of which the session is told then.
    """
    heard: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        heard.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def check() -> None:
        for number in heard[:1]:
            if number != signal.SIGINT:  # the exit code depends on which one it was
                before[number](number, None)
            raise KeyboardInterrupt

    before: dict[int, Handler] = {}
    for each in ENDING:
        own = signal.getsignal(each)
        if callable(own):
            before[each] = own
            signal.signal(each, note)
    try:
        yield check
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(done: Iterable[Ingested]) -> None:
    for each in done:
        typer.echo(f"{each.table}: {plural(each.rows, 'row')} of {each.topic}{_but(each)}")


def _but(each: Ingested) -> str:
    parts = []
    if each.unreadable:
        parts.append(f"{each.unreadable} with problems (column `problems`)")
    if each.gone:
        parts.append(f"{each.gone} offsets were removed before they could be read")
    return "".join(f"; {part}" for part in parts)
