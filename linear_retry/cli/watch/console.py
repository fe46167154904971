"""The command `linear-retry console`."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from linear_retry.cli.options.connection import Connection, with_option_groups
from linear_retry.cli.options.http import AccessOptions, listening_address
from linear_retry.cli.options.journal import JournalSpan
from linear_retry.cli.options.values import past_ms, topic_name, web_address
from linear_retry.cli.output.exit_codes import exit_on_error
from linear_retry.cli.store.options import STORE_VARIABLE, StoreOptions

if TYPE_CHECKING:
    from linear_retry.console.frame.settings import Settings


@with_option_groups
def console(
    connection: Connection,
    span: JournalSpan,
    access: AccessOptions,
    control: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC",
            callback=topic_name,
            help="The topic that consumers follow, usually linear-retry.control. Without it, no "
            "wait can be ended.",
        ),
    ] = None,
    dead_letters: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC",
            help="A dead-letter topic; repeat it for more.",
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The store of a scheduler or of outboxes: postgresql://user:password@host/database"
            f", or sqlite:///path. The default is ${STORE_VARIABLE}; without both there is no "
            "page about it.",
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The PostgreSQL schema that has the store's tables."),
    ] = None,
    lake: Annotated[
        Path | None,
        typer.Option(metavar="DIRECTORY", help="A lake of `linear-retry spark`: older outages."),
    ] = None,
    report: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            callback=web_address,
            help="Where the page of `linear-retry spark report` is, to link to.",
        ),
    ] = None,
    schema_registry: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Decode Avro and Protobuf with its schemas."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            help="Where its own files are. The default is linear-retry/console in "
            "$XDG_STATE_HOME, else in ~/.local/state.",
        ),
    ] = None,
    http: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            callback=listening_address,
            help="Where to listen. Anything but this machine needs --users or --trusted-proxy.",
        ),
    ] = "127.0.0.1:8099",
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Nobody may change anything.")
    ] = False,
    show_values: Annotated[
        bool, typer.Option("--show-values", help="Show keys and values to viewers too.")
    ] = False,
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
        _require("linear_retry.console.app", "'linear-retry[console]'")
        if lake is not None:
            _require("linear_retry.console.outages.lake", "deltalake")
        from linear_retry.console.frame.settings import Settings

        url = store or os.environ.get(STORE_VARIABLE)
        options = StoreOptions(store=url, schema=schema)
        settings = Settings(
            kafka=connection.keys(),
            state=_state() if state is None else state,
            journal=span.journal,
            journal_since_ms=max(past_ms("7d") if span.since is None else span.since, 0),
            control=control,
            dead_letters=tuple(dead_letters or ()),
            store=ends.enter_context(options.database()) if url else None,
            lake=lake,
            report=report,
            schema_registry=schema_registry,
            is_read_only=read_only,
            shows_values=show_values,
        )
        _serve(settings, access, http, as_json=connection.as_json)


def _serve(settings: Settings, access: AccessOptions, address: str, *, as_json: bool) -> None:
    from linear_retry.cli.output.log import log_to_stderr
    from linear_retry.console.app import create_app
    from linear_retry.console.frame.services import Services

    log_to_stderr(as_json=as_json)
    stop = Event()
    with Services(settings, access.access()) as services:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        with access.serving(create_app(services), services.access, address, "console"):
            stop.wait()
            services.live.hub.close()


def _require(module: str, install: str) -> None:
    """Raises `typer.BadParameter` if a library that the module needs is not installed."""
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        raise typer.BadParameter(f"{error.name} is missing: pip install {install}") from None


def _state() -> Path:
    # XDG's specification: a relative path must be ignored.
    home = os.environ.get("XDG_STATE_HOME", "")
    directory = Path(home) if os.path.isabs(home) else Path("~/.local/state").expanduser()
    return directory / "linear-retry" / "console"
