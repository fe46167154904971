"""The commands `linear-retry scheduler`."""

import typer

from linear_retry.cli.scheduler import commands
from linear_retry.cli.store import commands as store

app = typer.Typer(
    help="Keep messages in a database, and send each when it is due.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command()(commands.run)
app.command()(commands.reset_offset)
store.add_to(app, "scheduler")
