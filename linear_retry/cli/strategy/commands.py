"""The commands `linear-retry strategy check` and `show`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from linear_retry.cli.options.values import FILE_HELP, RULE, load_all, load_one, print_heading
from linear_retry.cli.output.exit_codes import DONE, NEGATIVE
from linear_retry.cli.output.rows import plural, write_aligned, write_json
from linear_retry.errors import StrategyError
from linear_retry.files import printable_path
from linear_retry.records.durations import duration_text
from linear_retry.strategy.strategy import Strategy

app = typer.Typer(
    help="Check, show and simulate strategy files.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

AsJson = Annotated[
    bool, typer.Option("--json", help="One JSON object per strategy, each on a line.")
]


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help=FILE_HELP)],
    as_json: AsJson = False,
) -> None:
    """Check strategy files, and report every problem.

    Example: linear-retry strategy check strategies/*.json

    Exit codes: 1, at least one is invalid.
    """
    is_bad = False
    for file in files:
        loaded = load_all(file)
        is_bad |= isinstance(loaded, StrategyError)
        if as_json:
            every = [loaded] if isinstance(loaded, StrategyError) else loaded
            write_json([summary(file, each) for each in every])
        elif isinstance(loaded, StrategyError):
            typer.echo(str(loaded))
        elif len(loaded) == 1:
            typer.echo(f"{printable_path(file)}: ok, {_totals(loaded[0])}")
        else:
            totals = "; ".join(map(_totals, loaded))
            typer.echo(f"{printable_path(file)}: ok, {len(loaded)} rules: {totals}")
    raise typer.Exit(NEGATIVE if is_bad else DONE)


@app.command()
def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help=FILE_HELP)],
    rule: RULE = None,
    as_json: AsJson = False,
) -> None:
    """Show each wait of a strategy, and their total.

    Example: linear-retry strategy show short-outage

    Exit codes: 1, the file is not a valid strategy (its problems are on stderr).
    """
    loaded = load_one(file, rule)
    if as_json:
        rows = [] if isinstance(loaded, StrategyError) else [*_rows(loaded)]
        write_json([{**summary(file, loaded), "waits": rows}])
    elif isinstance(loaded, StrategyError):
        typer.echo(str(loaded), err=True)
    else:
        _show(loaded)
    raise typer.Exit(NEGATIVE if isinstance(loaded, StrategyError) else DONE)


def _rows(strategy: Strategy) -> Iterator[dict[str, float]]:
    """The wait after each failure and the time since the first; `_max_s` is with all the jitter."""
    longest = 1 + strategy.jitter
    since_ms = 0
    for failure, wait_ms in enumerate(strategy.reached_ms(), 1):
        since_ms += wait_ms
        yield {
            "failure": failure,
            "wait_s": wait_ms / 1000,
            "wait_max_s": round(wait_ms * longest) / 1000,
            "since_first_s": since_ms / 1000,
            "since_first_max_s": round(_within(since_ms / 1000 * longest, strategy), 3),
        }


def summary(file: Path, loaded: Strategy | StrategyError) -> dict[str, Any]:
    """Summarises a file, or its problems."""
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
        "max_elapsed_s": loaded.max_elapsed_s,
        "delays": len(loaded),
        "total_s": loaded.total_s,
        "total_max_s": round(_longest_s(loaded), 3),
    }


def _show(strategy: Strategy) -> None:
    rows: list[tuple[str, ...]] = [("failure", "wait", "since the first failure")]
    for row in _rows(strategy):
        wait = range_text(row["wait_s"], row["wait_max_s"])
        since_first = range_text(row["since_first_s"], row["since_first_max_s"])
        rows.append((str(row["failure"]), wait, since_first))
    rows.append((str(len(rows)), "gives up", ""))
    print_heading(strategy)
    write_aligned(rows)
    typer.echo(f"in total: {_totals(strategy)}")


def _totals(strategy: Strategy) -> str:
    reached = len(strategy.reached_ms())
    cut = f"{reached} of " if reached < len(strategy) else ""
    spread = range_text(strategy.total_s, _longest_s(strategy))
    return f"{cut}{plural(len(strategy), 'wait')}, {spread}"


def _longest_s(strategy: Strategy) -> float:
    """The longest that its waits may last in total: with all the jitter."""
    return _within(sum(strategy.delays_ms) / 1000 * (1 + strategy.jitter), strategy)


def _within(since_first_s: float, strategy: Strategy) -> float:
    limit_s = strategy.max_elapsed_s
    return since_first_s if limit_s is None else min(since_first_s, limit_s)


def range_text(shortest_s: float, longest_s: float) -> str:
    """Formats both as a strategy file would, or only one if they are equal."""
    shortest, longest = (duration_text(round(s * 1000)) for s in (shortest_s, longest_s))
    return shortest if shortest == longest else f"{shortest} to {longest}"
