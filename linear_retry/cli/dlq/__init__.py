"""What can be done with dead letters from a shell? `linear-retry dlq`.

As everywhere in `cli`, what does the work is imported when it is called. The options that several
commands share are classes in `options`; `connecting.expanded` makes options of them.
"""

from __future__ import annotations

import typer

from linear_retry.cli.dlq import dealing, looking

app = typer.Typer(
    help="See dead letters, search them, and deal with them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("list")(looking.list_)
app.command()(looking.show)
app.command()(looking.stats)
app.command()(looking.export)
app.command()(dealing.replay)
app.command()(dealing.resolve)
app.command()(dealing.reopen)
app.command()(dealing.purge)
