"""The commands on the store; `scheduler` and `outbox` have the same, `inbox` the first."""

from typing import TYPE_CHECKING, Annotated, cast

import typer

from linear_retry.cli.options.connection import Connection, with_option_groups
from linear_retry.cli.options.values import PAYLOAD, length_ms, past_ms, topic_name
from linear_retry.cli.output.exit_codes import exit_on_error
from linear_retry.cli.store.options import (
    DEAD,
    JSON,
    NUMBER,
    NUMBERS,
    ChangeOptions,
    Selection,
    StoreOptions,
)

if TYPE_CHECKING:
    from linear_retry.store.records import Service


def add_to(app: typer.Typer, service: str) -> None:
    """Adds them to the commands of `service`, whose name their examples then have."""
    of_messages = (list_, show, stats, send, postpone, give_up, delete, drain)
    for command in (migrate, *(() if service == "inbox" else of_messages)):
        text = (command.__doc__ or "").replace("linear-retry scheduler", f"linear-retry {service}")
        app.command(command.__name__.rstrip("_").replace("_", "-"), help=text)(command)


def _service(context: typer.Context) -> "Service":
    """The group of commands that this one was called in."""
    return cast("Service", context.parent.info_name if context.parent else "")


@with_option_groups
def migrate(store: StoreOptions, as_json: JSON = False) -> None:
    """Create the store's tables, or bring them to this version.

    Nothing is lost, and a store of this version stays as it is. Stop what uses the store before you
    bring it to a new version. On PostgreSQL, a search in the text of errors is fast only with the
    extension pg_trgm.

    Example: linear-retry scheduler migrate --store postgresql://billing@db/billing

    Exit codes: 2, a newer linear_retry has made it; 3, it cannot be reached.
    """
    with exit_on_error(), store.database() as database:
        from linear_retry.cli.store.changes import migrate as run

        run(database, as_json=as_json)


@with_option_groups
def list_(
    context: typer.Context,
    store: StoreOptions,
    selection: Selection,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="At most so many.")] = 100,
    as_json: JSON = False,
) -> None:
    """List the messages that wait, or the dead letters.

    Messages in the order in which they are due, with the reason where their destination refuses
    them; dead letters the latest first. Values are never read. Times are UTC. In a pipe, tabs
    separate the columns.

    Example: linear-retry scheduler list --dead --reason not-allowed --since 2h
    """
    selection.check()
    with exit_on_error(), store.tables() as database:
        from linear_retry.cli.store.listing import list_dead_letters, list_messages

        service = _service(context)
        if selection.dead:
            list_dead_letters(database, selection.dead_letters(service), limit, as_json=as_json)
        else:
            list_messages(database, selection.messages(service), limit, as_json=as_json)


@with_option_groups
def show(
    number: NUMBER,
    store: StoreOptions,
    dead: DEAD = False,
    payload: PAYLOAD = False,
    as_json: JSON = False,
) -> None:
    """Show one message that waits, or one dead letter, in full.

    Example: linear-retry scheduler show 1042 --dead --payload

    Exit codes: 1, nothing has this number.
    """
    with exit_on_error(), store.tables() as database:
        from linear_retry.cli.store.show import show as run

        run(database, number, dead=dead, payload=payload, as_json=as_json)


@with_option_groups
def stats(context: typer.Context, store: StoreOptions, as_json: JSON = False) -> None:
    """Count what waits, what is held and what is dead.

    Messages by destination, with those that are due; the partitions whose destination refuses
    messages, with the reason; dead letters by reason and error.

    Example: linear-retry scheduler stats
    """
    with exit_on_error(), store.tables() as database:
        from linear_retry.cli.store.listing import show_stats

        show_stats(database, _service(context), as_json=as_json)


@with_option_groups
def send(
    context: typer.Context,
    store: StoreOptions,
    selection: Selection,
    options: ChangeOptions,
    numbers: NUMBERS = None,
) -> None:
    """Send messages now, or dead letters once more.

    Those with these numbers, or all that are selected. They become due at once; the service sends
    them. One that is due keeps its place, and a held one is tried again at once. A dead letter
    whose record named no topic stays. Those of the scheduler are sent to the topics that --allow
    named at its last start, and to no others. Dry run unless --yes.

    Example: linear-retry scheduler send 1042 1043 --dead --why 'topic created' --yes

    Exit codes: 1, nothing was found; 3, a dead letter may not be sent to its topic.
    """
    with exit_on_error(), store.tables() as database:
        from linear_retry.cli.store.changes import Wanted

        Wanted(database, _service(context), selection, numbers or (), options).send()


@with_option_groups
def postpone(
    context: typer.Context,
    store: StoreOptions,
    selection: Selection,
    options: ChangeOptions,
    numbers: NUMBERS = None,
    to: Annotated[
        int | None,
        typer.Option(metavar="TIME", parser=past_ms, help="Until then: 2026-11-21T10:00 (UTC)."),
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="From now on, by the store's clock: 2h."),
    ] = None,
) -> None:
    """Let messages wait until another time.

    Those with these numbers, or all that are selected. Dry run unless --yes.

    Example: linear-retry scheduler postpone --destination orders --for 2h --why maintenance --yes

    Exit codes: 1, nothing was found.
    """
    if selection.dead:
        raise typer.BadParameter("dead letters do not wait; `send` them", param_hint="--dead")
    if (to is None) == (delay is None):
        raise typer.BadParameter("write either --to TIME or --for DURATION")
    delay_ms = None if delay is None else length_ms(delay, "--for")
    with exit_on_error(), store.tables() as database:
        from linear_retry.cli.store.changes import Until, Wanted

        wanted = Wanted(database, _service(context), selection, numbers or (), options)
        wanted.postpone(Until(to, delay_ms))


@with_option_groups
def give_up(
    context: typer.Context,
    store: StoreOptions,
    selection: Selection,
    options: ChangeOptions,
    numbers: NUMBERS = None,
) -> None:
    """Make dead letters of messages that wait.

    So that the later ones of their keys are sent. Those with these numbers, or all that are
    selected. Dry run unless --yes.

    Example: linear-retry scheduler give-up 1042 --why 'too large for its topic' --yes

    Exit codes: 1, nothing was found.
    """
    if selection.dead:
        raise typer.BadParameter("dead letters are given up already", param_hint="--dead")
    with exit_on_error(), store.tables() as database:
        from linear_retry.cli.store.changes import Wanted

        Wanted(database, _service(context), selection, numbers or (), options).give_up()


@with_option_groups
def delete(
    context: typer.Context,
    store: StoreOptions,
    selection: Selection,
    options: ChangeOptions,
    numbers: NUMBERS = None,
) -> None:
    """Delete messages, or dead letters, for good.

    Those with these numbers, or all that are selected. Dry run unless --yes. This cannot be undone.

    Example: linear-retry scheduler delete --dead --reason unreadable --why 'a test' --yes

    Exit codes: 1, nothing was found.
    """
    with exit_on_error(), store.tables() as database:
        from linear_retry.cli.store.changes import Wanted

        Wanted(database, _service(context), selection, numbers or (), options).delete()


@with_option_groups
def drain(
    context: typer.Context,
    to: Annotated[
        str, typer.Option(metavar="TOPIC", callback=topic_name, help="The dead-letter topic.")
    ],
    store: StoreOptions,
    connection: Connection,
    options: ChangeOptions,
) -> None:
    """Empty the store: send all that waits to a dead-letter topic.

    For switching it off. Stop every process that sends from this store first; one that was killed
    is waited for. Each message is deleted once it is acknowledged. `linear-retry dlq replay` sends
    the letters to where the messages were to go. The store keeps the dead letters that it has: see
    list --dead. Dry run unless --yes.

    Example: linear-retry scheduler drain --to orders.dlq --bootstrap localhost:9092 --yes

    Exit codes: 2, another process sends from this store; 3, the topic does not exist.
    """
    with exit_on_error(), store.tables() as database:
        config = connection.keys()
        from linear_retry.cli.store.changes import drain as run

        run(database, _service(context), config, to, options)
