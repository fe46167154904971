"""Reads lengths of outages from options and files."""

import re
from pathlib import Path

import typer

from linear_retry.files import decode_small, printable_path, read_small
from linear_retry.strategy.delays import DURATION_REMEDY, duration_ms, shown

MAX_OUTAGES = 1000

_MAX_MS = 10 * 365 * 24 * 3_600_000
_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_FORM = 'give a text file with one duration on each line, such as "7m"'
_PROBLEMS_SHOWN = 10


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
        content = read_small(path)
    except ValueError as error:
        problems.append(f"{error}; {_FORM}")
        return []
    return parse(content, printable_path(path), problems)


def parse(content: bytes, where: str, problems: list[str]) -> list[int]:
    """As `read`, of the file `where` that holds `content`."""
    outages_ms: list[int] = []
    found: list[str] = []
    try:
        lines = decode_small(content).split("\n")
    except ValueError as error:
        problems.append(f"{where}: {error}; {_FORM}")
        return []
    for number, line in enumerate(lines, 1):
        written = line.partition("#")[0].strip()
        try:
            outages_ms += [_length_ms(written)] if written else []
        except ValueError as error:
            found.append(f"{where}:{number}: {error}")
    problems += _first(found, where) or _count_problems(len(outages_ms), where)
    return outages_ms


def _length_ms(text: str) -> int:
    """Raises `ValueError` with value, rule and remedy."""
    found_ms = float(text) * 1000 if _SECONDS.fullmatch(text) else duration_ms(text)
    if found_ms is None:
        raise ValueError(
            f"{shown(text)} is no length of time; {DURATION_REMEDY}, or as a number of seconds"
        )
    if found_ms > _MAX_MS:
        raise ValueError(f"{shown(text)} is longer than 10 years; write 87600h at most")
    return round(found_ms)


def _first(found: list[str], where: str) -> list[str]:
    """No more than can be read: a file of something else is wrong in every line."""
    hidden = len(found) - _PROBLEMS_SHOWN
    more = [f"{where}: {hidden} more lines are wrong in such ways"] if hidden > 0 else []
    return found[:_PROBLEMS_SHOWN] + more


def _count_problems(count: int, where: str) -> list[str]:
    if count == 0:
        return [f"{where}: no outage is in it; {_FORM}"]
    if count > MAX_OUTAGES:
        return [f"{where}: {count} outages are more than {MAX_OUTAGES}; give it in parts"]
    return []
