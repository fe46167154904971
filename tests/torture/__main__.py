"""The command of the torture: `python -m tests.torture schedules --amount 50000`."""

from __future__ import annotations

import logging
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from tests.real_kafka import RealKafka
from tests.torture.layer import Broker, ByDepth, Failure, Layer, Tally
from tests.torture.layers import LAYERS

_SHOWN_FAILURES = 3
_NAMED_SEEDS = 20


def main(
    names: Annotated[list[str] | None, typer.Argument(metavar="[LAYER]...")] = None,
    first: Annotated[
        int | None, typer.Option(min=0, help="The first seed, 0 unless given; runs add up.")
    ] = None,
    amount: Annotated[
        int | None,
        typer.Option(min=1, help="So many seeds, or steps deep; a layer's own unless given."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Only this one, of one layer: a failure's replay.")
    ] = None,
    short: Annotated[bool, typer.Option("--short", help="As little as `make test` does.")] = False,
) -> None:
    """Try to break the guarantees, layer by layer. Exit code 1 where one was broken.

    Example: python -m tests.torture schedules --seed 4711
    """
    # What members say is in the story of the play that fails.
    logging.getLogger("linear_retry").addHandler(logging.NullHandler())
    layers = _chosen(names or [])
    if seed is not None and (len(layers) > 1 or (first, amount, short) != (None, None, False)):
        raise typer.BadParameter("--seed is one play of one layer: name that, and nothing else")
    if amount is not None and short:
        raise typer.BadParameter("--amount and --short: it is one of them that says how many")
    if first is not None and all(isinstance(layer, ByDepth) for layer in layers):
        raise typer.BadParameter(f"--first: {layers[0].name} has a depth, and no first seed")
    console = Console()
    runs: list[_Run] = []
    try:
        with _broker() as broker:
            for layer in layers:
                wanted = amount or (layer.short if short else layer.long)
                run = _Run(layer, first or 0, wanted)
                if seed is not None:
                    run = _Run(layer, seed, 1, replays=True)
                parts = _parts(run, broker)
                runs.append(run)
                _play(console, run, parts)
    finally:  # what was played by then, where it is interrupted
        console.print(_table(runs))
    sys.exit(any(run.tally.failures for run in runs))


@dataclass(slots=True)
class _Run:
    layer: Layer
    first: int
    wanted: int
    replays: bool = False
    tally: Tally = field(default_factory=Tally)
    took_s: float = 0.0

    @property
    def which(self) -> str:
        """Of all that there is."""
        if self.replays:
            return f"seed {self.first}"
        return _which(self.layer, self.first, self.wanted, self.tally) if self.tally.done else ""


@contextmanager
def _broker() -> Iterator[Broker]:
    with ExitStack() as stack:
        kafka: list[RealKafka] = []

        def broker() -> RealKafka:
            if not kafka:
                directory = stack.enter_context(tempfile.TemporaryDirectory())
                kafka.append(stack.enter_context(RealKafka(Path(directory) / "kafka")))
            return kafka[0]

        yield broker


def _parts(run: _Run, broker: Broker) -> Iterator[Tally]:
    layer = run.layer
    if not (run.replays and isinstance(layer, ByDepth)):
        return layer.run(run.first, run.wanted, broker)
    try:
        return layer.replay(run.first)
    except ValueError as error:
        raise typer.BadParameter(f"--seed: {error}") from error


def _play(console: Console, run: _Run, parts: Iterator[Tally]) -> None:
    """All of a layer. The first failures are shown as they come."""
    begun_s = time.monotonic()
    with _progress(console, run.layer) as progress:
        task = progress.add_task(run.layer.name, total=None)
        for part in parts:
            for failure in part.failures[: max(_SHOWN_FAILURES - len(run.tally.failures), 0)]:
                _print(console, _replay(run.layer, failure) + "\n")
            run.tally.add(part)
            run.took_s = time.monotonic() - begun_s
            done = run.tally.done
            wanted = None if isinstance(run.layer, ByDepth) else max(run.wanted, done)
            progress.update(task, completed=done, total=wanted)
    if run.tally.failures:
        _print(console, _how_many(run.layer, run.tally))


def _print(console: Console, text: str) -> None:
    # Lines stay as they are: a command in two pieces is none.
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def summary(layer: Layer, first: int, tally: Tally) -> str:
    """One line: what was played, and what happened in it."""
    counts = ", ".join(f"{count:,} {what}" for what, count in sorted(tally.counts.items()))
    which = _which(layer, first, layer.short, tally)
    return f"{layer.name}: {tally.done:,} {layer.unit} ({which}): {counts}"


def _which(layer: Layer, first: int, wanted: int, tally: Tally) -> str:
    if isinstance(layer, ByDepth):
        return f"depth {wanted}"
    return f"seeds {first} to {first + tally.done - 1}"


def how_to_replay(layer: Layer, tally: Tally) -> str:
    """How many failed, and the first of them, each with its command."""
    failed = sorted(tally.failures, key=lambda failure: (not failure.story, failure.seed))
    shown = [_replay(layer, failure) for failure in failed[:_SHOWN_FAILURES]]
    return "\n\n".join([_how_many(layer, tally), *shown])


def _replay(layer: Layer, failure: Failure) -> str:
    return f"{failure.story}\nreplay: python -m tests.torture {layer.name} {failure.command}"


def _how_many(layer: Layer, tally: Tally) -> str:
    seeds = sorted({failure.seed for failure in tally.failures if not failure.replay})
    of_all = sorted({failure.replay for failure in tally.failures if failure.replay})
    named = ", ".join(map(str, seeds[:_NAMED_SEEDS])) + ", ..." * (len(seeds) > _NAMED_SEEDS)
    parts = [f"of the seeds {named}"] * bool(seeds) + [f"in {each}" for each in of_all]
    return f"{layer.name}: {len(tally.failures):,} of {tally.done:,} failed, {', '.join(parts)}"


def _chosen(names: list[str]) -> list[Layer]:
    known = {layer.name: layer for layer in LAYERS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]!r} is none of: {', '.join(known)}")
    return [known[name] for name in names] or list(LAYERS)


def _progress(console: Console, layer: Layer) -> Progress:
    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(layer.unit),
        TimeRemainingColumn(),
    ]
    return Progress(*columns, console=console, transient=True)


def _table(runs: list[_Run]) -> Table:
    table = Table("layer", "played", "which", "what happened", "failed", "minutes")
    for run in runs:
        layer, tally = run.layer, run.tally
        counts = "\n".join(f"{count:,} {what}" for what, count in sorted(tally.counts.items()))
        played = f"{tally.done:,} {layer.unit}"
        failed = str(len(tally.failures))
        table.add_row(layer.name, played, run.which, counts, failed, f"{run.took_s / 60:.1f}")
    return table


if __name__ == "__main__":
    # A shell's background job ignores Ctrl-C, and is ended by SIGTERM: what it has played is shown.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    typer.run(main)
