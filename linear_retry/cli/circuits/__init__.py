"""The commands `linear-retry circuits`.

As everywhere in `cli`, what does the work is imported when it is called.
"""

from __future__ import annotations

import typer

from linear_retry.cli.circuits import read_commands, write_commands

app = typer.Typer(
    help="See which circuits of a group are open, end their waits, and lift the limit.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("list")(read_commands.list_)
app.command()(write_commands.retry)
app.command("give-up")(write_commands.give_up)
app.command("lift-limit")(write_commands.lift_limit)
