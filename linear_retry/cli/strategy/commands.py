"""The commands `linear-retry strategy check` and `show`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from linear_retry.cli.output.exit_codes import DONE, NEGATIVE
from linear_retry.errors import StrategyError
from linear_retry.files import printable_path
from linear_retry.strategy.delays import duration_text
from linear_retry.strategy.ready import names
from linear_retry.strategy.strategy import Strategy

app = typer.Typer(
    help="Check strategy files, show them, try them out.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

FILE_HELP = "A strategy file, or the name of a ready one, such as short-outage."
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per file, each on a line.")]


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help=FILE_HELP)],
    as_json: AsJson = False,
) -> None:
    """Check strategy files: every problem of every file, at once.

    Example: linear-retry strategy check strategies/*.json

    Exit codes: 0, all are ok; 1, at least one is not; 2, wrong usage.
    """
    is_bad = False
    for file in files:
        loaded = load(file)
        is_bad = is_bad or isinstance(loaded, StrategyError)
        if as_json:
            echo_json(summary(file, loaded))
        elif isinstance(loaded, StrategyError):
            typer.echo(str(loaded))
        else:
            typer.echo(f"{printable_path(file)}: ok, {_totals(loaded)}")
    raise typer.Exit(NEGATIVE if is_bad else DONE)


@app.command()
def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help=FILE_HELP)],
    as_json: AsJson = False,
) -> None:
    """Show a strategy: the wait after each failure, the time since the first, the total.

    Example: linear-retry strategy show short-outage

    Exit codes: 0, shown; 1, the file is no strategy (its problems are on stderr); 2, wrong usage.
    """
    loaded = load(file)
    if as_json:
        rows = [] if isinstance(loaded, StrategyError) else [asdict(row) for row in _rows(loaded)]
        echo_json({**summary(file, loaded), "waits": rows})
    elif isinstance(loaded, StrategyError):
        typer.echo(str(loaded), err=True)
    else:
        _show(loaded)
    raise typer.Exit(NEGATIVE if isinstance(loaded, StrategyError) else DONE)


@dataclass(frozen=True, slots=True)
class _Row:
    """The wait after one failure and the time since the first; `_max` is with all the jitter."""

    failure: int
    wait_s: float
    wait_max_s: float
    since_first_s: float
    since_first_max_s: float


def duration(seconds: float) -> str:
    """`seconds` as a strategy file would write it: `1h30m`, `250ms`, `0s`."""
    return duration_text(round(seconds * 1000))


def load(file: Path) -> Strategy | StrategyError:
    """The strategy in a file, or the ready one of this name where there is no such file."""
    try:
        if str(file) in names() and not file.is_file():
            return Strategy.named(str(file))
        return Strategy.load(file)
    except StrategyError as error:
        return error


def _rows(strategy: Strategy) -> Iterator[_Row]:
    longest = 1 + strategy.jitter
    since_ms = 0
    for failure, wait_ms in enumerate(strategy.delays_ms, 1):
        since_ms += wait_ms
        both_s = (wait_ms / 1000, since_ms / 1000)
        longest_s = (round(wait_ms * longest) / 1000, round(since_ms * longest) / 1000)
        yield _Row(failure, both_s[0], longest_s[0], both_s[1], longest_s[1])


def summary(file: Path, loaded: Strategy | StrategyError) -> dict[str, Any]:
    if isinstance(loaded, StrategyError):
        return {"file": printable_path(file), "ok": False, "problems": loaded.problems}
    return {
        "file": printable_path(file),
        "ok": True,
        "problems": (),
        "name": loaded.name,
        "fingerprint": loaded.fingerprint,
        "description": loaded.description,
        "jitter": loaded.jitter,
        "delays": len(loaded),
        "total_s": loaded.total_s,
        "total_max_s": round(loaded.total_s * (1 + loaded.jitter), 3),
    }


def _show(strategy: Strategy) -> None:
    rows: list[tuple[str, ...]] = [("failure", "wait", "since the first failure")]
    for row in _rows(strategy):
        wait = duration_range(row.wait_s, row.wait_max_s)
        since_first = duration_range(row.since_first_s, row.since_first_max_s)
        rows.append((str(row.failure), wait, since_first))
    rows.append((str(len(strategy) + 1), "gives up", ""))
    echo_head(strategy)
    echo_table(rows)
    typer.echo(f"in total: {_totals(strategy)}")


def echo_head(strategy: Strategy) -> None:
    typer.echo(strategy.label)
    if strategy.description:
        typer.echo(strategy.description)


def echo_table(rows: list[tuple[str, ...]], styles: Mapping[str, str] | None = None) -> None:
    """The first row is the header. A drawn table on a terminal, aligned lines elsewhere.

    `styles` has the style of each cell that is drawn in one.
    """
    if sys.stdout.isatty():
        _draw_table(rows, styles or {})
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        typer.echo("  ".join(map(str.rjust, row, widths)).rstrip())


def _draw_table(rows: list[tuple[str, ...]], styles: Mapping[str, str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*rows[0])
    for column in table.columns:
        column.justify = "right"
    for row in rows[1:]:
        table.add_row(*(Text(cell, styles.get(cell, "")) for cell in row))
    Console().print(table)


def _totals(strategy: Strategy) -> str:
    count, total_s = len(strategy), strategy.total_s
    waits = f"{count} wait" if count == 1 else f"{count} waits"
    return f"{waits}, {duration_range(total_s, total_s * (1 + strategy.jitter))}"


def duration_range(shortest_s: float, longest_s: float) -> str:
    shortest, longest = duration(shortest_s), duration(longest_s)
    return shortest if shortest == longest else f"{shortest} to {longest}"


def echo_json(value: dict[str, Any]) -> None:
    import orjson

    typer.echo(orjson.dumps(value).decode())
