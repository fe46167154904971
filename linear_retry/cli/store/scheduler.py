"""The commands `linear-retry scheduler`."""

from typing import Annotated

import typer

from linear_retry.cli.options.connection import Connection, with_option_groups
from linear_retry.cli.options.http import HttpOptions
from linear_retry.cli.options.values import ALLOW, SCHEDULER_TOPIC, topic_name
from linear_retry.cli.output.exit_codes import exit_on_error
from linear_retry.cli.output.rows import write_json
from linear_retry.cli.store import commands as store_commands
from linear_retry.cli.store.options import ChangeOptions, StoreOptions
from linear_retry.scope import Scope

app = typer.Typer(
    help="Keep messages in a database, and send each when it is due.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
@with_option_groups
def run(
    topic: SCHEDULER_TOPIC,
    allow: ALLOW,
    store: StoreOptions,
    connection: Connection,
    http: HttpOptions,
    group: Annotated[
        str | None,
        typer.Option(metavar="GROUP", help="Its consumer group. The default is TOPIC.scheduler."),
    ] = None,
    dead_letters: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC",
            callback=topic_name,
            help="A dead-letter topic that is not named *.dlq or *-dlq: nothing is sent there.",
        ),
    ] = None,
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over",
            help="Where the store knows nothing of a partition, begin where the group has "
            "committed. Without this it is refused: another store has those messages.",
        ),
    ] = False,
) -> None:
    """Run the scheduler until SIGTERM or Ctrl-C.

    It stores what is in TOPIC, and sends each message to the topic in its header retry-destination
    at the time in retry-at-ms; without a time, or to a topic that is not allowed, it is kept as
    dead. A SQLite file is created if need be; for PostgreSQL, run `scheduler migrate` first. Run
    several for availability: they share the work. With --json, each line of the log is an object.

    Example: linear-retry scheduler run --topic billing.scheduled --allow 'orders*' --bootstrap
    localhost:9092

    Exit codes: 2, a value is wrong, or the store is not the one that the group belongs to; 3, the
    store, the cluster or a topic is missing, or is refused.
    """
    with exit_on_error(), store.database() as database:
        from linear_retry.cli.output.log import log_to_stderr
        from linear_retry.scheduler.service import SchedulerService, SchedulerSettings
        from linear_retry.store.migrations import migrate

        settings = SchedulerSettings(
            config=connection.keys(),
            topic=topic,
            allow=tuple(allow),
            group=group,
            dead_letters=dead_letters,
            takes_over=take_over,
        )
        log_to_stderr(as_json=connection.as_json)
        if database.is_sqlite:
            migrate(database)
        service = SchedulerService(database, settings)
        with http.serving_api(database, service):
            service.run()


@app.command()
@with_option_groups
def reset_offset(
    topic: SCHEDULER_TOPIC,
    partition: Annotated[
        int, typer.Option(metavar="NUMBER", min=0, help="A partition of that topic.")
    ],
    store: StoreOptions,
    connection: Connection,
    options: ChangeOptions,
    offset: Annotated[
        int | None,
        typer.Option(
            metavar="OFFSET",
            min=0,
            help="The default is the nearest that the partition has: its first after retention, "
            "its end after the end of the log was lost.",
        ),
    ] = None,
) -> None:
    """Set the offset at which a partition is read on.

    For a scheduler that refuses to read on, as the partition does not have its offset any more.
    Messages before the new offset that are not in the store are lost; those behind it that were
    stored before are sent once more. Dry run unless --yes.

    Example: linear-retry scheduler reset-offset --topic billing.scheduled --partition 3 --why
    'retention was too short' --bootstrap localhost:9092 --yes

    Exit codes: 2, the partition does not have the offset, or has that of the store and no --offset
    is given; 3, the store, the cluster or the topic is missing, or is refused.
    """
    with exit_on_error(), store.tables() as database:
        from linear_retry.scheduler import intake
        from linear_retry.scheduler.changes import Reason

        reason = Reason(options.actor, options.why) if options.yes else None
        place = topic, partition
        found = intake.reset_offset(database, connection.keys(), place, offset, reason)
        if connection.as_json:
            about = {"before": found.before, "offset": found.offset, "done": options.yes}
            bounds = {"first": found.first, "end": found.end}
            write_json([{"topic": topic, "partition": partition, **about, **bounds}])
            return
        before = "no offset" if found.before is None else f"offset {found.before}"
        change = f"{Scope(*place)} from {before} to offset {found.offset}"
        if options.yes:
            typer.echo(f"reset: {change}")
        else:
            has = f"it begins at offset {found.first} and ends before {found.end}"
            typer.echo(f"would reset {change} ({has}); do it with --yes")


store_commands.add_to(app, "scheduler")
