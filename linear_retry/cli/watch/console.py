"""The command `linear-retry console`."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING

import typer

from linear_retry.cli.options.connection import Connection, with_option_groups
from linear_retry.cli.options.http import AccessOptions
from linear_retry.cli.options.journal import JournalSpan
from linear_retry.cli.options.values import past_ms
from linear_retry.cli.output.exit_codes import exit_on_error
from linear_retry.cli.watch.console_options import OptionalStore, ServedOptions, ShownOptions

if TYPE_CHECKING:
    from linear_retry.console.state.settings import Settings


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
    from linear_retry.consumer.runners.signals import SIGNALS, SignalEvent

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
