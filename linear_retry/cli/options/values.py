"""Options and their values that commands of several groups take."""

import getpass
import socket
from datetime import UTC, datetime
from typing import Annotated

import typer

from linear_retry.retry.clock import now_ms
from linear_retry.strategy.delays import duration_ms, shown

BY = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Who does it, for the record: USER@HOST unless given."),
]


def whoami() -> str:
    """The user and the machine."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def topic_name(value: str | None) -> str | None:
    """The callback of an option that names a topic."""
    if value == "":
        raise typer.BadParameter("the topic's name is empty")
    return value


def past_ms(text: str, at_ms: int | None = None) -> int:
    """A time, or how long before `at_ms` (now), in ms of UTC. Raises `typer.BadParameter`."""
    ago_ms = duration_ms(text)
    if ago_ms is not None:
        return round((now_ms() if at_ms is None else at_ms) - ago_ms)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise typer.BadParameter(
            f"{shown(text)} is no time; write 2026-11-21, 2026-11-21T10:00 (UTC, unless it says "
            '+02:00), or how long ago, such as "2h", "1h30m" or "7d"'
        ) from None
    aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return round(aware.timestamp() * 1000)
