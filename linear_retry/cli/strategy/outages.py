"""Reads lengths of outages from options and files."""

import re
from pathlib import Path

import typer

from linear_retry.files import printable_path, read_text
from linear_retry.strategy.delays import DURATION_REMEDY, duration_ms, shown

_MAX_MS = 10 * 365 * 24 * 3_600_000
_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_FORM = 'give a text file with one duration on each line, such as "7m"'


def length_ms(text: str, option: str) -> int:
    """The whole milliseconds that the text of an option says. Raises `typer.BadParameter`."""
    try:
        return _length_ms(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def read(path: Path, problems: list[str]) -> list[int]:
    """The outages in the file at `path`, in milliseconds, in order.

    What is wrong is added to `problems`, one sentence each; the result is then of no use.
    """
    try:
        lines = read_text(path).split("\n")
    except ValueError as error:
        problems.append(f"{error}; {_FORM}")
        return []
    outages_ms: list[int] = []
    for number, line in enumerate(lines, 1):
        written = line.partition("#")[0].strip()
        try:
            outages_ms += [_length_ms(written)] if written else []
        except ValueError as error:
            problems.append(f"{printable_path(path)}:{number}: {error}")
    return outages_ms


def _length_ms(text: str) -> int:
    """Raises `ValueError` with value, rule and remedy."""
    found_ms = float(text) * 1000 if _SECONDS.fullmatch(text) else duration_ms(text)
    if found_ms is None:
        raise ValueError(
            f"{shown(text)} is not a duration; {DURATION_REMEDY}, or as a number of seconds"
        )
    if found_ms > _MAX_MS:
        raise ValueError(f"{shown(text)} is longer than 10 years; write 87600h at most")
    return round(found_ms)
