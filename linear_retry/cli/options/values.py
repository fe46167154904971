"""Options, and their parsers, that commands of several groups share."""

import getpass
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from linear_retry.errors import ConfigurationError, StrategyError
from linear_retry.files import printable_path, read_text
from linear_retry.records.durations import DAY_MS, DURATION_REMEDY, duration_ms, duration_text
from linear_retry.retry.clock import now_ms
from linear_retry.strategy.delays import shown
from linear_retry.strategy.file import load_all as load_arguments
from linear_retry.strategy.file import load_ready, ready_names
from linear_retry.strategy.strategy import Strategy

_MAX_MS = 10 * 365 * DAY_MS
_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_FORM = 'give a text file with one duration on each line, such as "7m"'

BY = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Who does it, for the record. The default is USER@HOST."),
]
PAYLOAD = Annotated[bool, typer.Option("--payload", help="Print keys and values too.")]

FILE_HELP = "A strategy file, or the name of a ready one, such as short-outage."
RULE = Annotated[
    int | None, typer.Option(metavar="N", help="Of a file of rules, the one with this number.")
]
ALLOW = Annotated[
    list[str],
    typer.Option(
        metavar="PATTERN",
        help="Topics to which it may send, such as 'orders.*'; repeat it for more. * stands "
        "for any characters.",
    ),
]


def whoami() -> str:
    """Returns the user and the host."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # in a container, the user may have no name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def user_directory(variable: str, under_home: str) -> Path | None:
    """Returns our directory in the one that `variable` (XDG's) names, else in the user's home.

    None without either: in a container, the user may have neither HOME nor an entry in passwd.
    """
    # XDG's specification: a relative path must be ignored.
    named = os.environ.get(variable, "")
    home = named if os.path.isabs(named) else os.path.expanduser(f"~/{under_home}")
    return Path(home) / "linear-retry" if os.path.isabs(home) else None


def argument_bytes(text: str) -> bytes:
    """Returns an argument's bytes: Python keeps those that are not UTF-8 as lone surrogates."""
    return text.encode("utf-8", "surrogateescape")


def topic_name(value: str | None) -> str | None:
    """Checks an option that names a topic."""
    if value == "":
        raise typer.BadParameter("the topic's name is empty")
    return value


def past_ms(text: str, at_ms: int | None = None) -> int:
    """Parses a time, or a duration before `at_ms` (now), as UTC ms. Raises `typer.BadParameter`."""
    ago_ms = duration_ms(text)
    if ago_ms is not None:
        return round((now_ms() if at_ms is None else at_ms) - ago_ms)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise typer.BadParameter(
            f"{shown(text)} is not a time; write 2026-11-21, 2026-11-21T10:00 (UTC, unless it says "
            '+02:00), or how long ago, such as "2h", "1h30m" or "7d"'
        ) from None
    aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return round(aware.timestamp() * 1000)


@contextmanager
def refused(option: str) -> Iterator[None]:
    """Turns `ConfigurationError` into `typer.BadParameter` of this option."""
    try:
        yield
    except ConfigurationError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def length_ms(text: str, option: str) -> int:
    """Parses an option's duration as whole milliseconds. Raises `typer.BadParameter`."""
    try:
        return _length_ms(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def read_lengths(path: Path, problems: list[str]) -> list[int]:
    """Reads the outages in the file at `path`, in milliseconds, in order.

    Adds a sentence to `problems` for each error; the result must not be used then.
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


def web_address(value: str | None) -> str | None:
    """Returns a URL of the web, as a page may link to. Raises `typer.BadParameter` for others."""
    if value is not None and not value.startswith(("http://", "https://")):
        raise typer.BadParameter(f"{value!r} must begin with http:// or https://")
    return value


def load(file: Path) -> Strategy | StrategyError:
    """Returns the strategy in a file, or the ready-made one of this name if no such file exists."""
    try:
        return Strategy.named(str(file)) if _is_ready(file) else Strategy.load(file)
    except StrategyError as error:
        return error


def load_all(file: Path) -> list[Strategy] | StrategyError:
    """Returns the strategies of a file of rules, or the one that `load` returns."""
    try:
        every = [load_ready(str(file))] if _is_ready(file) else load_arguments(file)
        return [Strategy(**arguments) for arguments in every]
    except StrategyError as error:
        return error


def _is_ready(file: Path) -> bool:
    return str(file) in ready_names() and not file.is_file()


def load_one(file: Path, rule: int | None) -> Strategy | StrategyError:
    """Returns the strategy in a file, or of its rule with this number, from 1 on."""
    found = load_all(file)
    if isinstance(found, StrategyError):
        return found
    number = 1 if rule is None and len(found) == 1 else rule
    if number is None or not 1 <= number <= len(found):
        wrong = "" if rule is None else f"--rule {rule}: "
        return StrategyError(
            [f"{wrong}{printable_path(file)} has {len(found)} rules; give --rule, from 1 on"]
        )
    return found[number - 1]


def print_heading(strategy: Strategy) -> None:
    """Its label, description and time limit."""
    typer.echo(strategy.label)
    if strategy.description:
        typer.echo(strategy.description)
    if strategy.max_elapsed_s is not None:
        limit = duration_text(round(strategy.max_elapsed_s * 1000))
        typer.echo(f"no retry begins later than {limit} after the first failure")


SCHEDULER_TOPIC = Annotated[
    str, typer.Option(metavar="TOPIC", callback=topic_name, help="The scheduler's own topic.")
]
