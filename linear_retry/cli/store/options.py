"""The options that name a store, and that select messages in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from linear_retry.cli.options.values import BY, argument_bytes, past_ms, whoami
from linear_retry.records.retry_headers import INT64_MAX

if TYPE_CHECKING:
    from linear_retry.store.database import Database
    from linear_retry.store.listing.filters import DeadLetterFilter, MessageFilter
    from linear_retry.store.records import Service

STORE_VARIABLE = "LINEAR_RETRY_STORE"

NUMBER = Annotated[
    int,
    typer.Argument(metavar="NUMBER", max=INT64_MAX, help="Its number, as `list` shows it."),
]
NUMBERS = Annotated[
    list[int] | None,
    typer.Argument(
        metavar="[NUMBER...]", max=INT64_MAX, help="Their numbers, as `list` shows them."
    ),
]
DEAD = Annotated[bool, typer.Option("--dead", help="Dead letters, not messages that wait.")]
JSON = Annotated[bool, typer.Option("--json", help="One JSON object on each line.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """The store's database."""

    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="postgresql://user:password@host/database, or sqlite:///path. The default is "
            f"${STORE_VARIABLE}, which keeps a password out of the list of processes, else the "
            "file linear-retry.sqlite3 in this directory.",
        ),
    ] = None
    schema: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The PostgreSQL schema that has the store's tables."),
    ] = None

    @contextmanager
    def database(self) -> Iterator[Database]:
        """The store, until the `with` is left. Raises `ConfigurationError`."""
        url = self.store or os.environ.get(STORE_VARIABLE)
        database = _database_type()(url, schema=self.schema)
        try:
            yield database
        finally:
            database.close()

    @contextmanager
    def tables(self) -> Iterator[Database]:
        """The same, once its tables are found. Raises `StoreVersionError` and `StoreError`."""
        with self.database() as database:
            from linear_retry.store.migrations import check_version

            check_version(database)
            yield database


def _database_type() -> type[Database]:
    try:
        from linear_retry.store.database import Database
    except ModuleNotFoundError as error:
        raise typer.BadParameter(
            f"{error.name} is missing: pip install 'linear-retry[scheduler]'"
        ) from None
    return Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Selects messages that wait, or dead letters. All options must match."""

    dead: DEAD = False
    destination: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="The topic that they are sent to.")
    ] = None
    group: Annotated[
        str | None, typer.Option(metavar="GROUP", help="The consumer group that they failed in.")
    ] = None
    retry_id: Annotated[str | None, typer.Option("--id", metavar="ID", help="Its id.")] = None
    key: Annotated[
        bytes | None, typer.Option(metavar="KEY", parser=argument_bytes, help="The key, whole.")
    ] = None
    error: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Part of the error, in upper or lower case."),
    ] = None
    reason: Annotated[
        str | None,
        typer.Option(metavar="REASON", help="Of dead letters: unreadable, not-allowed, ..."),
    ] = None
    held: Annotated[
        bool, typer.Option("--held", help="Only those whose destination refuses messages now.")
    ] = False
    since: Annotated[
        int | None,
        typer.Option(
            metavar="TIME",
            parser=past_ms,
            help="Due, or dead, then or later: 2026-11-21T10:00 (UTC), or 2h for two hours ago.",
        ),
    ] = None
    until: Annotated[
        int | None, typer.Option(metavar="TIME", parser=past_ms, help="Due, or dead, before that.")
    ] = None

    @property
    def is_empty(self) -> bool:
        """Whether it selects everything."""
        names = (field.name for field in fields(self) if field.name != "dead")
        return not any(getattr(self, name) for name in names)

    def check(self) -> None:
        """Raises `typer.BadParameter` for options that do not go together."""
        if self.dead and self.held:
            raise typer.BadParameter("dead letters are in no lane", param_hint="--held")
        if self.reason is not None and not self.dead:
            raise typer.BadParameter(
                "messages that wait have none; add --dead", param_hint="--reason"
            )

    def messages(self, service: Service) -> MessageFilter:
        """The filter for messages that wait."""
        from linear_retry.store.listing.filters import MessageFilter

        return MessageFilter(
            **self._common(service),
            is_held=True if self.held else None,
        )

    def dead_letters(self, service: Service) -> DeadLetterFilter:
        """The filter for dead letters."""
        from linear_retry.store.listing.filters import DeadLetterFilter

        return DeadLetterFilter(
            **self._common(service),
            reason=self.reason,
        )

    def _common(self, service: Service) -> dict[str, Any]:
        """The fields that both filters have."""
        return {
            "service": service,
            "destination": self.destination,
            "group_id": self.group,
            "retry_id": self.retry_id,
            "key": self.key,
            "error": self.error,
            "since_ms": self.since,
            "until_ms": self.until,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOptions:
    """Who makes a change, why, and whether it is made."""

    by: BY = None
    why: Annotated[str, typer.Option(metavar="TEXT", help="The reason, for the record.")] = ""
    yes: Annotated[bool, typer.Option("--yes", help="Do it. Without this: a dry run.")] = False

    @property
    def actor(self) -> str:
        return self.by or whoami()
