"""The options of `linear-retry console`: what it shows, the store, and how it is served."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from linear_retry.cli.options.http import listening_address
from linear_retry.cli.options.values import topic_name, user_directory, web_address
from linear_retry.cli.store.options import STORE_VARIABLE, StoreOptions

if TYPE_CHECKING:
    from linear_retry.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownOptions:
    """What the pages show, and where from."""

    control: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC",
            callback=topic_name,
            help="The topic that consumers follow, usually linear-retry.control. Without it, no "
            "wait can be ended.",
        ),
    ] = None
    dead_letters: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC",
            help="A dead-letter topic; repeat it for more.",
        ),
    ] = None
    report: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            callback=web_address,
            help="Where the page of `linear-retry spark report` is, to link to.",
        ),
    ] = None
    schema_registry: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Decode Avro and Protobuf with its schemas."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionalStore(StoreOptions):
    """A store, if one is named: there is no default file."""

    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The store of a scheduler or of outboxes: postgresql://user:password@host/database"
            f", or sqlite:///path. The default is ${STORE_VARIABLE}; without both there is no "
            "page about it.",
        ),
    ] = None

    @contextmanager
    def if_named(self) -> Iterator[Database | None]:
        """The store, until the `with` is left. Raises `ConfigurationError`."""
        url = self.store or os.environ.get(STORE_VARIABLE)
        if not url:
            yield None
            return
        with replace(self, store=url).database() as database:
            yield database


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedOptions:
    """How the console is served, and what users may do."""

    state: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            help="Where its own files are. The default is linear-retry/console in "
            "$XDG_STATE_HOME, else in ~/.local/state.",
        ),
    ] = None
    http: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            callback=listening_address,
            help="Where to listen. Anything but this machine needs --users or --trusted-proxy.",
        ),
    ] = "127.0.0.1:8099"
    read_only: Annotated[bool, typer.Option("--read-only", help="Nobody may change anything.")] = (
        False
    )
    show_values: Annotated[
        bool, typer.Option("--show-values", help="Show keys and values to viewers too.")
    ] = False

    @property
    def directory(self) -> Path:
        """Where the console's own files are."""
        if self.state is not None:
            return self.state
        if (directory := user_directory("XDG_STATE_HOME", ".local/state")) is None:
            raise typer.BadParameter("this user has no home; name one", param_hint="--state")
        return directory / "console"
