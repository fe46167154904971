"""Is this strategy file right, and what does it come to?"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from linear_retry.errors import StrategyError
from linear_retry.strategy import NOT_TEXT, Strategy

app = typer.Typer(
    help="Check and show strategy files.", no_args_is_help=True, rich_markup_mode=None
)

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per file, each on a line.")]


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Strategy files.")],
    as_json: AsJson = False,
) -> None:
    """Check strategy files: every problem of every file, at once.

    Example: linear-retry strategy check strategies/*.json

    Exit codes: 0, all are ok; 1, at least one is not; 2, wrong usage.
    """
    is_bad = False
    for file in files:
        loaded = _load(file)
        is_bad = is_bad or isinstance(loaded, StrategyError)
        if as_json:
            _echo_json(_summary(file, loaded))
        elif isinstance(loaded, StrategyError):
            typer.echo(str(loaded))
        else:
            typer.echo(f"{_shown(file)}: ok, {_totals(loaded)}")
    raise typer.Exit(1 if is_bad else 0)


@app.command()
def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A strategy file.")],
    as_json: AsJson = False,
) -> None:
    """Show a strategy: the wait after each failure, the time since the first, the total.

    Example: linear-retry strategy show strategies/short-outage.json

    Exit codes: 0, shown; 1, the file is no strategy (its problems are on stderr); 2, wrong usage.
    """
    loaded = _load(file)
    if as_json:
        rows = [] if isinstance(loaded, StrategyError) else [asdict(row) for row in _rows(loaded)]
        _echo_json({**_summary(file, loaded), "waits": rows})
    elif isinstance(loaded, StrategyError):
        typer.echo(str(loaded), err=True)
    else:
        _show(loaded)
    raise typer.Exit(1 if isinstance(loaded, StrategyError) else 0)


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
    rest_ms = round(seconds * 1000)
    text = ""
    for unit, unit_ms in (("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, rest_ms = divmod(rest_ms, unit_ms)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def _load(file: Path) -> Strategy | StrategyError:
    try:
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


def _summary(file: Path, loaded: Strategy | StrategyError) -> dict[str, Any]:
    if isinstance(loaded, StrategyError):
        return {"file": _shown(file), "ok": False, "problems": loaded.problems}
    return {
        "file": _shown(file),
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
    header = ("failure", "wait", "since the first failure")
    cells = [
        (
            str(row.failure),
            _range(row.wait_s, row.wait_max_s),
            _range(row.since_first_s, row.since_first_max_s),
        )
        for row in _rows(strategy)
    ]
    cells.append((str(len(strategy) + 1), "gives up", ""))
    typer.echo(strategy.label)
    if strategy.description:
        typer.echo(strategy.description)
    if sys.stdout.isatty():
        _echo_rich(header, cells)
    else:
        for line in (header, *cells):
            typer.echo(f"{line[0]:>7}  {line[1]:>24}  {line[2]:>32}".rstrip())
    typer.echo(f"in total: {_totals(strategy)}")


def _echo_rich(header: tuple[str, ...], cells: list[tuple[str, str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*header)
    for column in table.columns:
        column.justify = "right"
    for line in cells:
        table.add_row(*line)
    Console().print(table)


def _totals(strategy: Strategy) -> str:
    count, total_s = len(strategy), strategy.total_s
    waits = f"{count} wait" if count == 1 else f"{count} waits"
    return f"{waits}, {_range(total_s, total_s * (1 + strategy.jitter))}"


def _range(shortest_s: float, longest_s: float) -> str:
    shortest, longest = duration(shortest_s), duration(longest_s)
    return shortest if shortest == longest else f"{shortest} to {longest}"


def _shown(file: Path) -> str:
    return NOT_TEXT.sub("\ufffd", os.fspath(file))


def _echo_json(value: dict[str, Any]) -> None:
    import orjson

    typer.echo(orjson.dumps(value).decode())
