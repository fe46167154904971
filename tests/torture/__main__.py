"""How is it tried for long? `python -m tests.torture schedules --first 20000 --amount 50000`."""

from __future__ import annotations

import logging
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
from tests.torture.layer import Broker, Failure, Layer, Tally
from tests.torture.layers import LAYERS

_SHOWN_FAILURES = 3
_NAMED_SEEDS = 20


def main(
    names: Annotated[list[str] | None, typer.Argument(metavar="[LAYER]...")] = None,
    first: Annotated[
        int | None, typer.Option(min=0, help="The first seed, 0 unless given; runs add up.")
    ] = None,
    amount: Annotated[
        int | None, typer.Option(min=1, help="So many seeds; a layer's own amount unless given.")
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
    console = Console()
    runs: list[_Run] = []
    try:
        with _broker() as broker:
            for layer in layers:
                wanted = 1 if seed is not None else amount or (layer.short if short else layer.long)
                runs.append(_Run(layer, first or 0 if seed is None else seed))
                _play(console, runs[-1], wanted, broker)
    finally:  # what was played by then, where it is interrupted
        console.print(_table(runs))
    sys.exit(any(run.tally.failures for run in runs))


@dataclass(slots=True)
class _Run:
    layer: Layer
    first: int
    tally: Tally = field(default_factory=Tally)
    took_s: float = 0.0


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


def _play(console: Console, run: _Run, wanted: int, broker: Broker) -> None:
    """All of a layer. The first failures are told as they come."""
    begun_s = time.monotonic()
    with _progress(console, run.layer) as progress:
        task = progress.add_task(run.layer.name, total=None)
        for part in run.layer.run(run.first, wanted, broker):
            for failure in part.failures[: max(_SHOWN_FAILURES - len(run.tally.failures), 0)]:
                _tell(console, _replay(run.layer, failure) + "\n")
            run.tally.add(part)
            run.took_s = time.monotonic() - begun_s
            done = run.tally.done
            progress.update(task, completed=done, total=max(wanted, done))
    if run.tally.failures:
        _tell(console, _how_many(run.layer, run.tally))


def _tell(console: Console, text: str) -> None:
    # Lines stay as they are: a command in two pieces is none.
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def told(layer: Layer, first: int, tally: Tally) -> str:
    """One line: what was played, and what happened in it."""
    counts = ", ".join(f"{count:,} {what}" for what, count in sorted(tally.counts.items()))
    last = first + tally.done - 1
    return f"{layer.name}: {tally.done:,} {layer.unit} (seeds {first} to {last}): {counts}"


def how_to_replay(layer: Layer, tally: Tally) -> str:
    """How many failed, and the first of them, each with its command."""
    told = sorted(tally.failures, key=lambda failure: (not failure.story, failure.seed))
    shown = [_replay(layer, failure) for failure in told[:_SHOWN_FAILURES]]
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
    table = Table("layer", "played", "seeds", "what happened", "failed", "minutes")
    for run in runs:
        layer, tally = run.layer, run.tally
        counts = "\n".join(f"{count:,} {what}" for what, count in sorted(tally.counts.items()))
        seeds = f"{run.first} to {run.first + tally.done - 1}" if tally.done else ""
        played = f"{tally.done:,} {layer.unit}"
        failed = str(len(tally.failures))
        table.add_row(layer.name, played, seeds, counts, failed, f"{run.took_s / 60:.1f}")
    return table


if __name__ == "__main__":
    typer.run(main)
