"""The commands `linear-retry dlq`.

As everywhere in `cli`, each command imports its implementation when it is called. Options that
several commands share are classes in `options`, expanded by `connection.with_option_groups`.
"""

import typer

from linear_retry.cli.dlq import read_commands, write_commands

app = typer.Typer(
    help="Search, replay, resolve and purge dead letters.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("list")(read_commands.list_)
app.command()(read_commands.show)
app.command()(read_commands.stats)
app.command()(read_commands.export)
app.command()(write_commands.rehearse)
app.command()(write_commands.replay)
app.command()(write_commands.resolve)
app.command()(write_commands.reopen)
app.command()(write_commands.purge)
