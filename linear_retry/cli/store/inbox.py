"""The commands `linear-retry inbox`."""

from typing import Annotated

import typer

from linear_retry.cli.options.connection import with_option_groups
from linear_retry.cli.options.values import past_ms
from linear_retry.cli.output.exit_codes import exit_on_error
from linear_retry.cli.output.rows import plural, write_json, write_table
from linear_retry.cli.store import commands as store_commands
from linear_retry.cli.store.options import JSON, ChangeOptions, StoreOptions
from linear_retry.errors import ConfigurationError

app = typer.Typer(
    help="Look after the places that consumers keep in a database.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
store_commands.add_to(app, "inbox")

_HEAD = ("group", "topic", "partition", "next offset", "owner")


@app.command("list")
@with_option_groups
def list_(store: StoreOptions, as_json: JSON = False) -> None:
    """List where each group continues, by the database.

    And how many messages that came back, replayed or from a retry topic, are known to be done: a
    second copy of one has no effect. In a pipe, tabs separate the columns.

    Example: linear-retry inbox list --store postgresql://billing@db/billing

    Exit codes: 3, the tables are missing, or cannot be reached.
    """
    with exit_on_error(), store.tables() as database:
        from linear_retry.store.application import places

        with database.reading() as connection:
            found, done = places.read_all(connection), places.count_done(connection)
        if as_json:
            write_json(row._asdict() for row in found)
            return
        rows = [
            (row.group_id, row.topic, str(row.partition), _offset(row.next_offset), row.owner)
            for row in found
        ]
        write_table(_HEAD, rows, ("partition", "next offset"))
        typer.echo(f"{plural(done, 'message')} that came back known to be done", err=True)


@app.command()
@with_option_groups
def set_place(
    group: Annotated[str, typer.Option(metavar="GROUP", help="The consumer group.")],
    topic: Annotated[str, typer.Option(metavar="TOPIC", help="The topic that it reads.")],
    partition: Annotated[int, typer.Option(metavar="NUMBER", min=0, help="Its partition.")],
    offset: Annotated[
        int, typer.Option(metavar="OFFSET", min=0, help="The offset of the next message to handle.")
    ],
    store: StoreOptions,
    options: ChangeOptions,
    as_json: JSON = False,
) -> None:
    """Set the offset at which a group continues in a partition.

    In place of kafka-consumer-groups --reset-offsets, to which a consumer with an inbox does not
    listen. A member that runs loses the partition, and has it back some seconds later, from there
    on. What lies behind the new place is handled, also if it was before, of whichever key. Dry run
    unless --yes.

    Example: linear-retry inbox set-place --group ledger --topic payments --partition 3 --offset
    1042 --why 'the rate was wrong' --yes

    Exit codes: 2, nothing of this partition is stored; 3, the tables are missing, or cannot be
    reached.
    """
    with exit_on_error(), store.tables() as database:
        from linear_retry.scope import Scope
        from linear_retry.store import audit
        from linear_retry.store.application import places

        place = (group, topic, partition)
        with database.begin() as connection:
            before = places.read_place(connection, *place)
            if before is None:
                raise ConfigurationError(
                    f"{Scope(topic, partition)}: group {group!r} has no place there; "
                    "`linear-retry inbox list` shows those that there are"
                )
            if options.yes:
                places.set_place(connection, *place, offset)
                about = {"group": group, "partition": str(Scope(topic, partition))}
                audit.write(
                    database,
                    connection,
                    actor=options.actor,
                    action="set-place",
                    count=0,
                    details={**about, "before": before, "offset": offset, "comment": options.why},
                )
        if as_json:
            about_it = {"group": group, "topic": topic, "partition": partition}
            write_json([{**about_it, "before": before, "offset": offset, "done": options.yes}])
            return
        change = f"{Scope(topic, partition)} of group {group} from {_offset(before)} to {offset}"
        typer.echo(f"set: {change}" if options.yes else f"would set {change}; do it with --yes")


@app.command()
@with_option_groups
def purge(
    before: Annotated[
        str,
        typer.Option(
            metavar="WHEN",
            help='A time, or how long ago, such as "30d": longer ago than any letter that may '
            "still be replayed.",
        ),
    ],
    store: StoreOptions,
    options: ChangeOptions,
) -> None:
    """Forget the messages that came back and were done before a time.

    A copy of one that comes afterwards has its effect once more. Dry run unless --yes.

    Example: linear-retry inbox purge --before 30d --yes

    Exit codes: 2, WHEN cannot be read; 3, the tables are missing, or cannot be reached.
    """
    at_ms = past_ms(before)
    with exit_on_error(), store.tables() as database:
        from linear_retry.store import audit
        from linear_retry.store.application import places

        with database.begin() as connection:
            if not options.yes:
                count = places.count_done(connection, at_ms)
            elif count := places.purge(connection, at_ms):
                audit.write(
                    database,
                    connection,
                    actor=options.actor,
                    action="purge-inbox",
                    count=count,
                    details={"before_ms": at_ms, "comment": options.why},
                )
        said = plural(count, "message")
        typer.echo(
            f"forgotten: {said}" if options.yes else f"would forget {said}; do it with --yes"
        )


def _offset(stored: int) -> str:
    return "none" if stored < 0 else str(stored)
