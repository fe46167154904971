"""Reads a strategy file that is named on the command line, or a ready strategy."""

from pathlib import Path

import typer

from linear_retry.errors import StrategyError
from linear_retry.records.durations import duration_text
from linear_retry.strategy.file import ready_names
from linear_retry.strategy.strategy import Strategy

FILE_HELP = "A strategy file, or the name of a ready one, such as short-outage."


def load(file: Path) -> Strategy | StrategyError:
    """Returns the strategy in a file, or the ready-made one of this name if no such file exists."""
    try:
        if str(file) in ready_names() and not file.is_file():
            return Strategy.named(str(file))
        return Strategy.load(file)
    except StrategyError as error:
        return error


def print_heading(strategy: Strategy) -> None:
    """Its label, description and time limit."""
    typer.echo(strategy.label)
    if strategy.description:
        typer.echo(strategy.description)
    if strategy.max_elapsed_s is not None:
        limit = duration_text(round(strategy.max_elapsed_s * 1000))
        typer.echo(f"no retry begins later than {limit} after the first failure")
