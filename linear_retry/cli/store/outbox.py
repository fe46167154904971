"""The commands `linear-retry outbox`."""

import signal
from pathlib import Path
from typing import Annotated

import typer

from linear_retry.cli.options.connection import Connection, with_option_groups
from linear_retry.cli.options.http import HttpOptions
from linear_retry.cli.options.values import load
from linear_retry.cli.output.exit_codes import exit_on_error
from linear_retry.cli.store import commands as store_commands
from linear_retry.cli.store.options import StoreOptions
from linear_retry.errors import StrategyError
from linear_retry.store.records import OnRefused

app = typer.Typer(
    help="Send what outboxes have stored, and look after it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
@with_option_groups
def run(
    store: StoreOptions,
    connection: Connection,
    http: HttpOptions,
    strategy: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="The waits of a message that its topic does not take, a file or the name of a "
            "ready one; the last one again and again, unless --on-refused dead-letter.",
        ),
    ] = Path("simple"),
    on_refused: Annotated[
        OnRefused,
        typer.Option(
            help="hold: such a message waits for as long as it is refused, and the later ones of "
            "its key behind it; dead-letter: it becomes a dead letter, and they are sent.",
        ),
    ] = "hold",
) -> None:
    """Send what outboxes have stored, until SIGTERM or Ctrl-C.

    For outboxes with sender=False, and for those whose process has ended. Run several for
    availability: they share the work. While the brokers are away nothing counts as refused. With
    --json, each line of the log is an object.

    Example: linear-retry outbox run --store postgresql://billing@db/billing --bootstrap
    localhost:9092

    Exit codes: 2, a value is wrong, or the store belongs to another cluster; 3, the store is
    missing, or cannot be reached.
    """
    with exit_on_error(), store.tables() as database:
        waits = load(strategy)
        if isinstance(waits, StrategyError):
            raise waits
        from linear_retry.cli.output.log import log_to_stderr
        from linear_retry.consumer.ownership.stop import SIGNALS, SignalEvent
        from linear_retry.outbox.outbox_sender import OutboxSender

        sender = OutboxSender(database, connection.keys(), waits, on_refused)
        stop = SignalEvent()
        for number in SIGNALS:
            # A handler that raised would end it within a batch, which would be sent again.
            signal.signal(number, lambda *_: stop.set())
        log_to_stderr(as_json=connection.as_json)
        with http.serving_api(database, sender):
            sender.run(stop)


store_commands.add_to(app, "outbox")
