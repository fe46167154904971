"""How is it tried for long? `python -m tests.torture schedules --first 20000 --amount 50000`."""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from tests.real_kafka import RealKafka
from tests.torture.layer import Layer, Tally
from tests.torture.layers import LAYERS

_SHOWN_FAILURES = 3


def main(
    names: Annotated[list[str] | None, typer.Argument(metavar="[LAYER]...")] = None,
    first: Annotated[int, typer.Option(help="The first seed; runs of other seeds add up.")] = 0,
    amount: Annotated[
        int | None, typer.Option(help="So many seeds; a layer's own amount unless given.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Only this one: the replay of a failure.")
    ] = None,
    short: Annotated[bool, typer.Option(help="As little as `make test` does.")] = False,
) -> None:
    """Try to break the guarantees, layer by layer. Exit code 1 where one was broken.

    Example: python -m tests.torture schedules --seed 4711
    """
    # What members say is in the story of the play that fails.
    logging.getLogger("linear_retry").addHandler(logging.NullHandler())
    layers = _chosen(names or [])
    tallies: list[tuple[Layer, int, Tally, float]] = []
    console = Console()
    with ExitStack() as stack:
        kafka: list[RealKafka] = []

        def broker() -> RealKafka:
            if not kafka:
                directory = stack.enter_context(tempfile.TemporaryDirectory())
                kafka.append(stack.enter_context(RealKafka(Path(directory) / "kafka")))
            return kafka[0]

        for layer in layers:
            wanted = 1 if seed is not None else amount or (layer.short if short else layer.long)
            begun_s = time.monotonic()
            tally = Tally()
            begin = first if seed is None else seed
            with _progress(console, layer) as progress:
                task = progress.add_task(layer.name, total=None)
                for part in layer.run(begin, wanted, broker):
                    tally.add(part)
                    progress.update(task, completed=tally.done, total=max(wanted, tally.done))
            tallies.append((layer, begin, tally, time.monotonic() - begun_s))
            _show_failures(console, layer, tally)
    console.print(_table(tallies))
    sys.exit(any(tally.failures for _, _, tally, _ in tallies))


def told(layer: Layer, first: int, tally: Tally) -> str:
    """One line: what was played, and what happened in it."""
    counts = ", ".join(f"{count:,} {what}" for what, count in sorted(tally.counts.items()))
    last = first + tally.done - 1
    return f"{layer.name}: {tally.done:,} {layer.unit} (seeds {first} to {last}): {counts}"


def how_to_replay(layer: Layer, tally: Tally) -> str:
    """The first failures, each with its command."""
    shown = [
        f"{failure.story}\nreplay: python -m tests.torture {layer.name} --seed {failure.seed}"
        for failure in sorted(tally.failures, key=lambda failure: failure.seed)[:_SHOWN_FAILURES]
    ]
    return "\n\n".join([f"{layer.name}: {len(tally.failures)} of {tally.done} failed", *shown])


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


def _show_failures(console: Console, layer: Layer, tally: Tally) -> None:
    if tally.failures:
        console.print(how_to_replay(layer, tally), markup=False, highlight=False)


def _table(tallies: list[tuple[Layer, int, Tally, float]]) -> Table:
    table = Table("layer", "played", "seeds", "what happened", "failed", "minutes")
    for layer, first, tally, took_s in tallies:
        counts = "\n".join(f"{count:,} {what}" for what, count in sorted(tally.counts.items()))
        seeds = f"{first} to {first + tally.done - 1}"
        played = f"{tally.done:,} {layer.unit}"
        failed = str(len(tally.failures))
        table.add_row(layer.name, played, seeds, counts, failed, f"{took_s / 60:.1f}")
    return table


if __name__ == "__main__":
    typer.run(main)
