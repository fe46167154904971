"""The command of `circuits` that only reads."""

from __future__ import annotations

from typing import Annotated

import typer

from linear_retry.cli.options.connection import Connection, with_option_groups
from linear_retry.cli.options.journal import JournalSpan
from linear_retry.cli.output.exit_codes import exit_on_error


@with_option_groups
def list_(
    connection: Connection,
    span: JournalSpan,
    group: Annotated[
        str | None, typer.Option(metavar="GROUP", help="The consumer group; else all.")
    ] = None,
) -> None:
    """List the circuits that are open, as the journal tells: whose, for which message, since when.

    A member that was killed says nothing: its circuits are listed until another member has its
    partitions. `last_word` is when a member last said anything about a circuit. Times are UTC. In
    a pipe there are tabs between the columns.

    Example: linear-retry circuits list --group billing --bootstrap localhost:9092

    Exit codes: 0, listed, or none is open; 1, the journal has no such group; 2, wrong usage; 3, no
    broker answers, there is no such journal, or no permission for it; 130, Ctrl-C; 143,
    SIGTERM.
    """
    with exit_on_error():
        reading = span.reading(connection)
        from linear_retry.cli.circuits.listing import list_circuits

        list_circuits(reading, group, as_json=connection.as_json)
