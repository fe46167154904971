"""The command of the soak: `python -m tests.soak --minutes 30`."""

import json
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, get_args

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from linear_retry.scope import AnyScope
from tests.real_kafka import RealKafka
from tests.scenarios.protocols import PROTOCOLS
from tests.soak.course import Course
from tests.soak.judgement import Judgement, judged
from tests.soak.lines import LINES, Verdict
from tests.soak.soak import MEMBERS, PARTITIONS, Soak, Status
from tests.soak.trend import Trend, sparkline

_MIB = 2**20
_SHOWN_VIOLATIONS = 3


def main(
    minutes: Annotated[float, typer.Option(min=0.2, help="So long something may fail.")] = 30.0,
    seed: Annotated[int, typer.Option(help="When what fails, and who is killed.")] = 0,
    protocol: Annotated[str, typer.Option(help=", ".join(PROTOCOLS))] = "cooperative",
    scope: Annotated[str, typer.Option(help=", ".join(get_args(AnyScope)))] = "consumer",
    rate: Annotated[float, typer.Option(help="Messages a second.")] = 60.0,
    report: Annotated[
        Path | None, typer.Option("--json", help="Write what was seen into this file.")
    ] = None,
) -> None:
    """Runs both lines of a group on a real broker with outages and kills, and asks for flat lines.

    Exit code 1 where not. Needs Linux, for what is measured is in /proc.

    Example: python -m tests.soak --minutes 30 --protocol consumer --json soak.json
    """
    if protocol not in PROTOCOLS:
        raise typer.BadParameter(f"{protocol!r} is none of: {', '.join(PROTOCOLS)}")
    if scope not in get_args(AnyScope):
        raise typer.BadParameter(f"{scope!r} is none of: {', '.join(get_args(AnyScope))}")
    chosen: AnyScope = scope  # type: ignore[assignment]  # it is one of them
    logging.getLogger("linear_retry").addHandler(logging.NullHandler())
    console = Console()
    course = Course(minutes * 60, seed, rate)
    with tempfile.TemporaryDirectory() as directory, RealKafka(Path(directory) / "kafka") as kafka:
        kafka.create_topic("orders", PARTITIONS)
        kafka.create_topic("orders.dlq", PARTITIONS)
        soak = Soak(kafka, Path(directory), course, protocol=protocol, scope=chosen)
        with _shown(console, course) as show:
            soak.run(show)
        judgement = judged(soak)
    for part in summary(judgement):
        console.print(part, highlight=False, markup=False)
    if report is not None:
        report.write_text(json.dumps(judgement.to_json(), indent=1) + "\n")
    sys.exit(not judgement.is_good)


def summary(judgement: Judgement) -> Iterator[Table | str]:
    """What happened, each line, and what is wrong."""
    happened = [f"{number:,} {what}" for what, number in sorted(judgement.counts.items())]
    yield (
        f"{judgement.seconds / 60:.1f} minutes, {MEMBERS} members and a retry line, "
        f"seed {judgement.seed}: {', '.join(happened)}"
    )
    yield _table(judgement)
    for line in LINES:
        extra = f", and {line.per_opening * _MIB:.0f} bytes an opening" * bool(line.per_opening)
        limit = f"{line.may_grow:g} {line.unit}".rstrip()
        yield f"{line.name} may grow by {limit}{extra}: {line.why}"
    yield from judgement.broken[:_SHOWN_VIOLATIONS]
    count = len(judgement.broken)
    yield f"guarantees broken: {count} times" if count else "every guarantee holds"


def _table(judgement: Judgement) -> Table:
    """A row for each line of each life that was long enough."""
    table = Table(box=None, padding=(0, 1, 0, 0))
    for name in ("member", "line", "from", "to", "", "grew", "may", "flat"):
        table.add_column(name, no_wrap=True)
    for verdict in judgement.lines:
        if verdict.trend is not None:
            table.add_row(*_row(verdict, verdict.trend))
    return table


def _row(verdict: Verdict, trend: Trend) -> tuple[str, ...]:
    life, line = verdict.life, verdict.line
    return (
        life.member,
        line.name,
        f"{verdict.points[0][1]:.1f}",
        f"{verdict.points[-1][1]:.1f} {line.unit}".rstrip(),
        sparkline(verdict.points),
        f"{trend.growth:+.2f}",
        f"{line.allowance(life):.2f}",
        "yes" if verdict.is_flat else "NO",
    )


@contextmanager
def _shown(console: Console, course: Course) -> Iterator[Callable[[Status], None]]:
    columns = (
        BarColumn(bar_width=20),
        TextColumn("{task.percentage:.0f} %"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("the members start", total=course.seconds)
        yield lambda status: progress.update(
            task,
            completed=min(status.passed_s, course.seconds),
            description=_line_of(status),
        )


def _line_of(status: Status) -> str:
    counts = status.counts
    sizes = " ".join(f"{size / _MIB:.0f}" for size in status.resident_bytes)
    return (
        f"{counts['handled']:,} of {status.produced:,} handled, {counts['openings']} openings, "
        f"{counts['DeadLettered']} letters, {counts['kill']} killed, {sizes} MiB"
    )


if __name__ == "__main__":
    typer.run(main)
