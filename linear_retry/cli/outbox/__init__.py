"""The commands `linear-retry outbox`."""

import typer

from linear_retry.cli.outbox import commands
from linear_retry.cli.store import commands as store

app = typer.Typer(
    help="Send what outboxes have stored, and look after it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command()(commands.run)
store.add_to(app, "outbox")
