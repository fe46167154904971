"""What can be done with dead letters from a shell? `linear-retry dlq`.

As everywhere in `cli`, what does the work is imported when it is called. The options that several
commands share are classes in `options`; `expanded` makes options of them.
"""

from __future__ import annotations

import typer

from linear_retry.cli.dlq.ending import told
from linear_retry.cli.dlq.options import PAYLOAD, TOPIC, Connection, Selection, expanded

app = typer.Typer(
    help="See dead letters, search them, and deal with them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list")
@expanded
def list_(
    topic: TOPIC, selection: Selection, connection: Connection, payload: PAYLOAD = False
) -> None:
    """List dead letters: when, id, origin, reason, failures, exception, state.

    Options that differ must all hold; of one that is repeated, any value. A record that is no dead
    letter is listed as such. Times are UTC. In a pipe there are tabs between the columns.

    Example: linear-retry dlq list orders.dlq --bootstrap localhost:9092 --since 2h --state open

    Exit codes: 0, listed, or there is none; 2, wrong usage; 3, no broker answers, there is no such
    topic, or no permission for it; 130, Ctrl-C.
    """
    with told(), connection.topic(topic) as letters:
        from linear_retry.cli.dlq.listing import list_letters

        list_letters(letters, selection.filter(), payload=payload, as_json=connection.as_json)
