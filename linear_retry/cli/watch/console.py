"""The command `linear-retry console`, and its options."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from linear_retry.cli.options.connection import Connection, JournalSpan, with_option_groups
from linear_retry.cli.options.http import AccessOptions, listening_address
from linear_retry.cli.options.values import past_ms, topic_name, user_directory, web_address
from linear_retry.cli.output.exit_codes import exit_on_error
from linear_retry.cli.store.options import STORE_VARIABLE, StoreOptions

if TYPE_CHECKING:
    from linear_retry.console.state.settings import Settings
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


@with_option_groups
def console(
    connection: Connection,
    span: JournalSpan,
    shown: ShownOptions,
    store: OptionalStore,
    served: ServedOptions,
    access: AccessOptions,
) -> None:
    """Serve a page for the person on call, until SIGTERM or Ctrl-C.

    It shows all groups of a journal: members, open circuits and lag, and with --control ends their
    waits. Without --users, everyone on this machine is an operator. It reads topics without a
    group, and commits nothing.

    Example: linear-retry console --bootstrap localhost:9092 --control linear-retry.control

    Exit codes: 2, a value is wrong, or a library is missing (pip install 'linear-retry[console]');
    3, the address or the files cannot be used.
    """
    access.check()
    with exit_on_error(), ExitStack() as ends:
        _require_extra()
        from linear_retry.console.state.settings import Settings

        settings = Settings(
            kafka=connection.keys(),
            state=served.directory,
            journal=span.journal,
            journal_since_ms=max(past_ms("7d") if span.since is None else span.since, 0),
            control=shown.control,
            dead_letters=tuple(shown.dead_letters or ()),
            store=ends.enter_context(store.if_named()),
            report=shown.report,
            schema_registry=shown.schema_registry,
            is_read_only=served.read_only,
            shows_values=served.show_values,
        )
        _serve(settings, access, served.http, as_json=connection.as_json)


def _serve(settings: Settings, access: AccessOptions, address: str, *, as_json: bool) -> None:
    from linear_retry.cli.output.log import log_to_stderr
    from linear_retry.console.app import create_app
    from linear_retry.console.frame.services import Services
    from linear_retry.consumer.ownership.stop import SIGNALS, SignalEvent

    log_to_stderr(as_json=as_json)
    stop = SignalEvent()
    with Services(settings, access.access()) as services:
        for number in SIGNALS:
            signal.signal(number, lambda *_: stop.set())
        with access.serving(create_app(services), services.access, address, "console"):
            stop.wait()
            services.live.hub.close()


def _require_extra() -> None:
    """Raises `typer.BadParameter` if a library that the console needs is not installed."""
    try:
        import linear_retry.console.app  # noqa: F401
    except ModuleNotFoundError as error:
        install = "pip install 'linear-retry[console]'"
        raise typer.BadParameter(f"{error.name} is missing: {install}") from None
