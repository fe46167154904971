"""The options for a journal, and how far back to read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from linear_retry.cli.options.connection import Connection
from linear_retry.cli.options.values import past_ms, topic_name
from linear_retry.journal.entry import DEFAULT_TOPIC

if TYPE_CHECKING:
    from linear_retry.journal.reader import JournalTail


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSpan:
    """A journal, and how far back to read it."""

    journal: Annotated[
        str, typer.Option(metavar="TOPIC", callback=topic_name, help="The journal's topic.")
    ] = DEFAULT_TOPIC
    since: Annotated[
        int | None,
        typer.Option(
            metavar="TIME",
            parser=past_ms,
            show_default="7d",
            help="Read entries since this time: 2026-11-21, 2026-11-21T10:00 (UTC), or 2h "
            "for two hours ago. The default is the longest delay that a strategy may have.",
        ),
    ] = None

    def reading(self, connection: Connection) -> JournalTail:
        """Returns a reader of this journal. Raises `typer.BadParameter`."""
        from linear_retry.journal.reader import JournalTail

        since_ms = past_ms("7d") if self.since is None else self.since
        return JournalTail(connection.keys(), self.journal, since_ms=max(since_ms, 0))
