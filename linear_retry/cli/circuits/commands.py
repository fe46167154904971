"""The commands `linear-retry circuits`, which import their implementation when called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Never

import typer

from linear_retry.cli.options.connection import Connection, JournalSpan, with_option_groups
from linear_retry.cli.options.values import BY, topic_name, whoami
from linear_retry.cli.output.exit_codes import NEGATIVE, confirmed, exit_on_error
from linear_retry.errors import ConfigurationError
from linear_retry.records.control import DEFAULT_TOPIC, Command, CommandName
from linear_retry.records.durations import duration_ms, duration_text
from linear_retry.scope import Place
from linear_retry.strategy.delays import shown

if TYPE_CHECKING:
    from linear_retry.monitoring.control import CommandSender, SentCommand


app = typer.Typer(
    help="List a group's open circuits, and end their waits.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

MEMBER = Annotated[
    str | None,
    typer.Option(metavar="MEMBER", help="This member only, as `circuits list` names it."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandTarget:
    """The target group of a command, its sender, and how long to wait for answers."""

    group: Annotated[str, typer.Option(metavar="GROUP", help="The consumer group.")]
    control: Annotated[
        str,
        typer.Option(
            metavar="TOPIC", callback=topic_name, help="The topic that its consumers follow."
        ),
    ] = DEFAULT_TOPIC
    by: BY = None
    timeout: Annotated[
        int, typer.Option(metavar="SECONDS", min=1, max=3600, help="How long to wait.")
    ] = 30

    def command(self, name: CommandName, place: Place | None = None, **more: Any) -> Command:
        """Returns a checked command, about one message or none. Raises `typer.BadParameter`."""
        from linear_retry.monitoring.control import checked_command

        command = Command("", name, self.group, None, None, None, self.by or whoami(), 0, **more)
        if place is not None:
            command = replace(command, **place._asdict())
        try:
            return checked_command(command)
        except ConfigurationError as error:
            raise typer.BadParameter(str(error)) from None

    def sender(self, connection: Connection, *, waits: bool = True) -> CommandSender:
        """Returns a sender for the control topic. Raises `typer.BadParameter`."""
        from linear_retry.monitoring.control import CommandSender

        return CommandSender(connection.keys(), self.control, self.timeout, waits)


def _place(text: str) -> Place:
    place = Place.of(text)
    if place is None:
        raise typer.BadParameter(
            f"{shown(text)} is not TOPIC[PARTITION]@OFFSET, such as 'orders[3]@812'"
        )
    return place


@app.command("list")
@with_option_groups
def list_(
    connection: Connection,
    span: JournalSpan,
    group: Annotated[
        str | None, typer.Option(metavar="GROUP", help="The consumer group; else all.")
    ] = None,
) -> None:
    """List open circuits, as the journal records them.

    Each with its member, scope, message, failures, and since when it is open. A killed member
    writes nothing, so its circuits are listed until another member has its partitions; Kafka is
    asked too, and a group without a live member is named, with what waits for it. `last_event` is
    when a member last wrote about a circuit. Times are UTC. In a pipe, tabs separate the columns.

    Example: linear-retry circuits list --group billing --bootstrap localhost:9092

    Exit codes: 1, the journal has no such group.
    """
    with exit_on_error():
        journal = span.reading(connection)
        from linear_retry.cli.circuits.listing import list_circuits
        from linear_retry.journal.standing import Standings

        standings = Standings(connection.keys())
        list_circuits(journal, standings, group, as_json=connection.as_json)


@app.command()
@with_option_groups
def retry(
    target: CommandTarget,
    connection: Connection,
    messages: Annotated[
        list[Place] | None,
        typer.Argument(
            metavar="[MESSAGE]...",
            parser=_place,
            help="Held messages, as `circuits list` shows them: 'orders[3]@812', or orders:3@812.",
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every open circuit, with or without a held message.")
    ] = False,
    member: MEMBER = None,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Return once the attempts have begun.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Attempt without asking, even if it is the last attempt.")
    ] = False,
) -> None:
    """Attempt held messages now, before their wait is over.

    Name the messages, or a --member, or --all. Waits for the outcome: recovered, failed again, or
    dead-lettered. Asks before an attempt that is the last one of its strategy. The consumers must
    follow the control topic: LinearConsumer(control="linear-retry.control"). A command expires a
    minute after it was sent.

    Example: linear-retry circuits retry --group billing --bootstrap localhost:9092 'orders[3]@812'

    Exit codes: 0, recovered, or nothing is open; 1, it failed again, is no longer held, the command
    has expired, or you said no; 3, nobody in the group has answered; 6, accepted, but not finished
    in time.
    """
    if bool(messages) + every + (member is not None) != 1:
        raise typer.BadParameter("name the messages, or write --all, or --member MEMBER")
    places: list[Place | None] = [*messages] if messages else [None]
    commands = [target.command("retry", place, member=member, last=yes) for place in places]
    sender = target.sender(connection, waits=not no_wait)
    with exit_on_error():
        sent = sender.send(commands)
        last = _last_attempts(sent)
        question = (
            f"The next attempt of {', '.join(map(str, last))} is the last: if it fails, the "
            "message goes to the dead letters, or ends the consumer. Attempt it?"
        )
        if last and confirmed(question):
            again = [target.command("retry", place, last=True) for place in last]
            sent = [one for one in sent if not one.drop("last-attempt")]
            sent += sender.send(again)
        raise typer.Exit(_written(sender, sent, connection))


def _written(sender: CommandSender, sent: Sequence[SentCommand], connection: Connection) -> int:
    from linear_retry.cli.circuits.listing import write

    return write(sender, sent, as_json=connection.as_json)


def _send(
    sender: CommandSender, command: Command, connection: Connection, *, question: str | None = None
) -> Never:
    """Sends a command, asks before if there is a `question`, and exits with what came of it."""
    if question is not None and not confirmed(question):
        raise typer.Exit(NEGATIVE)
    with exit_on_error():
        raise typer.Exit(_written(sender, sender.send([command]), connection))


def _last_attempts(sent: Sequence[SentCommand]) -> list[Place]:
    """Returns the messages whose next attempt would be the last."""
    answers = [answer for one in sent for answer in one.answers()]
    return [one.place for one in answers if one.answer == "last-attempt" and one.place is not None]


@app.command()
@with_option_groups
def give_up(
    message: Annotated[
        Place,
        typer.Argument(
            metavar="MESSAGE",
            parser=_place,
            help="The held message, as `circuits list` shows it: 'orders[3]@812', or orders:3@812.",
        ),
    ],
    target: CommandTarget,
    connection: Connection,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
) -> None:
    """Send a held message to the dead letters now.

    Asks first. Its consumer must follow the control topic, as with `circuits retry`. The answer
    comes when the letter is acknowledged; "pending" means that it is still being sent.

    Example: linear-retry circuits give-up --group billing --bootstrap localhost:9092
    'orders[3]@812' --yes

    Exit codes: 1, it is no longer held, its consumer has no dead-letter topic, the command has
    expired, or you said no; 3, nobody in the group has answered; 6, accepted, but not sent in time.
    """
    command = target.command("give-up", message)
    question = f"Send {message}, held by group {shown(target.group)}, to the dead letters?"
    _send(target.sender(connection), command, connection, question=None if yes else question)


@app.command()
@with_option_groups
def lift_limit(
    target: CommandTarget,
    connection: Connection,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason, for the record.")],
    letters: Annotated[
        int | None,
        typer.Option("--for", metavar="LETTERS", min=1, help="For at most this many dead letters."),
    ] = None,
    member: MEMBER = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
) -> None:
    """Lift the dead-letter limit until the next success.

    Asks first. A message that DeadLetters(limit=...) holds is attempted at once, and dead-lettered
    if it fails permanently. Each member lifts its own limit; with --for, for that many letters at
    most. The consumers must follow the control topic, as with `circuits retry`.

    Example: linear-retry circuits lift-limit --group billing --bootstrap localhost:9092 --for 5000
    --reason 'a bad batch of the importer' --yes

    Exit codes: 1, a member has no limit, the command has expired, or you said no; 3, nobody in the
    group has answered; 6, accepted, but not finished in time.
    """
    command = target.command("lift-limit", member=member, letters=letters, reason=reason)
    amount = "without a number" if letters is None else f"for {letters}"
    question = f"Lift the limit of dead letters of group {shown(target.group)}, {amount}?"
    _send(target.sender(connection), command, connection, question=None if yes else question)


TOPIC = Annotated[
    str | None,
    typer.Option(metavar="TOPIC", help="This topic only; else everything that they read."),
]


def _seconds(text: str) -> int:
    found_ms = duration_ms(text)
    if found_ms is None or found_ms < 1000:
        raise typer.BadParameter(f"{shown(text)} is not a duration; write one such as 30m or 1h30m")
    return round(found_ms / 1000)


@app.command("open")
@with_option_groups
def open_(
    target: CommandTarget,
    connection: Connection,
    for_s: Annotated[
        int,
        typer.Option("--for", metavar="DURATION", parser=_seconds, help="How long, such as 30m."),
    ],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason, for the record.")],
    topic: TOPIC = None,
    member: MEMBER = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
) -> None:
    """Pause a group for a maintenance window.

    Asks first. Each member attempts nothing after the message in hand, until the time is over or
    `circuits close` ends it. Nothing fails by it, and no delay is used up. Members that join
    meanwhile obey too: they read the control topic. A second command replaces the first. The
    consumers must follow the control topic, as with `circuits retry`; none pauses for longer than
    its group_pause_max_s, an hour by default.

    Example: linear-retry circuits open --group billing --bootstrap localhost:9092 --for 30m
    --reason 'the ledger moves to its new host' --yes

    Exit codes: 1, the command has expired, or you said no; 3, nobody in the group has answered; 6,
    accepted, but not paused in time: a handler is busy.
    """
    command = target.command("open", member=member, for_s=for_s, only_topic=topic, reason=reason)
    what = shown(target.group) if topic is None else f"{shown(target.group)}, topic {shown(topic)}"
    question = f"Pause group {what}, for {duration_text(for_s * 1000)}?"
    _send(target.sender(connection), command, connection, question=None if yes else question)


@app.command()
@with_option_groups
def close(
    target: CommandTarget, connection: Connection, topic: TOPIC = None, member: MEMBER = None
) -> None:
    """End the pauses that `circuits open` began, before their time.

    Keys begin one by one then, and twice as many after each success.

    Example: linear-retry circuits close --group billing --bootstrap localhost:9092

    Exit codes: 1, a member was not paused, or the command has expired; 3, nobody in the group has
    answered; 6, accepted, but not ended in time.
    """
    command = target.command("close", member=member, only_topic=topic)
    _send(target.sender(connection), command, connection)


@app.command()
@with_option_groups
def reload(target: CommandTarget, connection: Connection, member: MEMBER = None) -> None:
    """Have each member read its strategy's file now.

    A member with strategy=StrategyFile(...) looks for itself whenever a message fails; this shows,
    before one does, what is in force in each, by name and fingerprint. What is wrong with a file
    leaves everything as it is. The consumers must follow the control topic, as with `circuits
    retry`.

    Example: linear-retry circuits reload --group billing --bootstrap localhost:9092

    Exit codes: 1, a member refuses its file, has none, or the command has expired; 3, nobody in the
    group has answered; 6, accepted, but not looked at in time.
    """
    command = target.command("reload", member=member)
    _send(target.sender(connection), command, connection)
