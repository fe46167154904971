"""The commands of `dlq` that only read."""

from pathlib import Path
from typing import Annotated

import typer

from linear_retry.cli.dlq.options import TOPIC, Connection, Selection
from linear_retry.cli.options.connection import with_option_groups
from linear_retry.cli.options.values import PAYLOAD
from linear_retry.cli.output.exit_codes import exit_on_error
from linear_retry.strategy.delays import shown

_FIELDS = (
    *("exception", "message", "origin", "partition", "reason", "group", "state", "format"),
    *("step", "key", "day", "hour"),
)
_NEWEST_AT_MOST = 10_000


@with_option_groups
def list_(
    topic: TOPIC,
    selection: Selection,
    connection: Connection,
    payload: PAYLOAD = False,
    group_by: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...", help=f"Count letters by these fields instead: {', '.join(_FIELDS)}."
        ),
    ] = None,
    newest: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=_NEWEST_AT_MOST, help="Only the N that were written last."
        ),
    ] = None,
) -> None:
    """List dead letters.

    Time, id, origin, reason, failures, exception and state. A letter must match every option given;
    of an option given several times, any value. A record that is not a dead letter is listed as
    such. Up to 10,000 are sorted by time; more are printed as they are read, each partition in
    order. Times are UTC. In a pipe, tabs separate the columns.

    Example: linear-retry dlq list orders.dlq --bootstrap localhost:9092 --since 2h --state open
    """
    fields = [] if group_by is None else list(dict.fromkeys(group_by.split(",")))
    if unknown := [name for name in fields if name not in _FIELDS]:
        raise typer.BadParameter(
            f"{shown(unknown[0])} is not a field; write some of {', '.join(_FIELDS)}",
            param_hint="--group-by",
        )
    if newest is not None and (fields or selection.limit is not None):
        raise typer.BadParameter(
            "it cannot be combined with --group-by or --limit; leave these out",
            param_hint="--newest",
        )
    with exit_on_error(), connection.topic(topic) as letters:
        letter_filter = selection.filter()
        from linear_retry.cli.dlq.listing import count_letters, list_letters

        if fields:
            count_letters(letters, letter_filter, fields, as_json=connection.as_json)
        else:
            list_letters(
                letters, letter_filter, newest=newest, payload=payload, as_json=connection.as_json
            )


@with_option_groups
def show(
    topic: TOPIC,
    letter_id: Annotated[
        str, typer.Argument(metavar="ID", help="Its id, with or without #generation.")
    ],
    connection: Connection,
    payload: PAYLOAD = False,
) -> None:
    """Show one dead letter in full.

    Headers, and the exception with its stack; key and value with --payload. If a replayed message
    was dead-lettered again, the letters of all generations are shown.

    Example: linear-retry dlq show orders.dlq billing/orders/3/1042/498921439726
    --payload --bootstrap localhost:9092

    Exit codes: 1, there is no such letter.
    """
    with exit_on_error(), connection.topic(topic) as letters:
        from linear_retry.cli.dlq.listing import show as run

        run(letters, letter_id, payload=payload, as_json=connection.as_json)


@with_option_groups
def stats(
    topics: Annotated[
        list[str],
        typer.Argument(
            metavar="TOPIC...", help="The dead-letter topic; with --prometheus also several."
        ),
    ],
    selection: Selection,
    connection: Connection,
    prometheus: Annotated[
        bool,
        typer.Option(
            "--prometheus",
            help="Metrics in Prometheus's text format: the letters by state, and when the "
            "oldest open one was written.",
        ),
    ] = False,
) -> None:
    """Summarise dead letters by time, reason, origin and key.

    With --prometheus: one or several topics as metrics, for node_exporter's textfile collector.

    Example: linear-retry dlq stats orders.dlq --bootstrap localhost:9092 --since 7d
    """
    if (prometheus and connection.as_json) or (not prometheus and len(topics) > 1):
        raise typer.BadParameter(
            "several topics need --prometheus, without --json; write one topic, or --prometheus "
            "alone",
            param_hint="--prometheus",
        )
    with exit_on_error():
        letter_filter = selection.filter()
        if prometheus:
            from linear_retry.cli.dlq.stats import write_backlog

            write_backlog(map(connection.topic, dict.fromkeys(topics)), letter_filter)
            return
        from linear_retry.cli.dlq.stats import show_stats

        with connection.topic(topics[0]) as letters:
            show_stats(letters, letter_filter, as_json=connection.as_json)


@with_option_groups
def export(
    topic: TOPIC,
    to: Annotated[Path, typer.Option(metavar="FILE", help="The file to write.")],
    selection: Selection,
    connection: Connection,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file if it exists.")
    ] = False,
) -> None:
    """Export dead letters as JSON lines.

    With their state, and keys, values and headers byte for byte; linear_retry.dlq.read_export reads
    the file back in Python. The file appears when it is complete, and only its owner may read it.

    Example: linear-retry dlq export orders.dlq --to orders.jsonl --bootstrap localhost:9092
    """
    with exit_on_error(), connection.topic(topic) as letters:
        letter_filter = selection.filter()
        from linear_retry.cli.dlq.listing import export as run

        run(letters, to, letter_filter, overwrite=overwrite, as_json=connection.as_json)
