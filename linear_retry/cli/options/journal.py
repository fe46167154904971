"""The options that name a journal, and how far back it is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from linear_retry.cli.options.connection import Connection
from linear_retry.cli.options.moments import moment_ms
from linear_retry.journal.entry import DEFAULT_TOPIC
from linear_retry.retry.clock import now_ms

if TYPE_CHECKING:
    from linear_retry.journal.reader import JournalTail


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A journal, and how far back it matters."""

    journal: Annotated[str, typer.Option(metavar="TOPIC", help="The journal's topic.")] = (
        DEFAULT_TOPIC
    )
    since: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Read what was written then or later: 2026-11-21, 2026-11-21T10:00 (UTC), or 2h "
            "for two hours ago. The default is the longest wait that a strategy may have.",
        ),
    ] = "7d"

    def reading(self, connection: Connection) -> JournalTail:
        """Of the journal that is meant. Raises `typer.BadParameter`."""
        from linear_retry.journal.reader import JournalTail

        if not self.journal:
            raise typer.BadParameter("the topic's name is empty", param_hint="--journal")
        since_ms = moment_ms(self.since, now_ms(), "--since")
        return JournalTail(connection.keys(), self.journal, since_ms=max(since_ms, 0))
