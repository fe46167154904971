"""The option that names who does something, for the record."""

from __future__ import annotations

import getpass
import socket
from typing import Annotated

import typer

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
