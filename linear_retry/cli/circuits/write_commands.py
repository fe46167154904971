"""The commands of `circuits` that end waits, or lift the limit of dead letters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from linear_retry.cli.options.connection import Connection, with_option_groups
from linear_retry.cli.options.values import BY, topic_name, whoami
from linear_retry.cli.output.exit_codes import NEGATIVE, confirmed, exit_on_error
from linear_retry.records.control import DEFAULT_TOPIC, Command
from linear_retry.strategy.delays import shown

if TYPE_CHECKING:
    from linear_retry.cli.circuits.send import Sending, Told
    from linear_retry.records.control import CommandName
    from linear_retry.scope import Place

_PLACE = re.compile(r"([^:\[\]@]+)(?:\[([0-9]{1,9})\]|:([0-9]{1,9}))@([0-9]{1,18})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """To whom it is said, by whom, and how long an answer is waited for."""

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

    def command(self, name: CommandName, message: str | None = None) -> Command:
        """Checked, about one message or about none. Raises `typer.BadParameter`."""
        from linear_retry.cli.circuits.send import order_of

        topic, partition, offset = (None, None, None) if message is None else _read(message)
        by = self.by or whoami()
        return order_of(Command("", name, self.group, topic, partition, offset, by, 0))

    def sending(self, connection: Connection, *, waits: bool = True) -> Sending:
        """Raises `typer.BadParameter`."""
        from linear_retry.cli.circuits.send import Sending

        return Sending(connection.keys(), self.control, self.timeout, waits)


def _read(message: str) -> tuple[str, int, int]:
    found = _PLACE.fullmatch(message)
    if found is None:
        raise typer.BadParameter(
            f"{shown(message)} is not TOPIC[PARTITION]@OFFSET, such as 'orders[3]@812'",
            param_hint="MESSAGE",
        )
    return found[1], int(found[2] or found[3]), int(found[4])


MESSAGE = Annotated[
    str,
    typer.Argument(
        metavar="MESSAGE",
        help="The held message, as `circuits list` shows it: 'orders[3]@812', or orders:3@812.",
    ),
]
MESSAGES = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[MESSAGE]...",
        help="Held messages, as `circuits list` shows them: 'orders[3]@812', or orders:3@812.",
    ),
]
MEMBER = Annotated[
    str | None,
    typer.Option(metavar="MEMBER", help="This member only, as `circuits list` names it."),
]


@with_option_groups
def retry(
    word: Word,
    connection: Connection,
    messages: MESSAGES = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every open circuit, with or without a held message.")
    ] = False,
    member: MEMBER = None,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="End once the attempts have begun.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Attempt without asking, though it be the last attempt.")
    ] = False,
) -> None:
    """End waits: have held messages attempted now, and not only when their time has come.

    Name the messages, or a --member, or --all. Waits for the outcome: recovered, failed again, or
    dead-lettered. Asks before an attempt that is the last one of its strategy. The consumers must
    follow the control topic: LinearConsumer(control="linear-retry.control"). A command that nobody
    has read a minute after it was sent is not carried out any more.

    Example: linear-retry circuits retry --group billing --bootstrap localhost:9092 'orders[3]@812'

    Exit codes: 0, recovered, or nothing is open; 1, it has failed again, is not held (any more),
    or you said no, or the command has expired; 2, wrong usage; 3, nobody in the group has answered,
    no broker answers, there is no such control topic, or no permission for it; 6, accepted, but not
    finished in time; 130, Ctrl-C; 143, SIGTERM.
    """
    from linear_retry.cli.circuits.send import order_of

    if bool(messages) + every + (member is not None) != 1:
        raise typer.BadParameter("name the messages, or write --all, or --member MEMBER")
    named: list[str | None] = [*messages] if messages else [None]
    orders = [word.command("retry", message) for message in named]
    orders = [order_of(replace(order, member=member, last=yes)) for order in orders]
    sending = word.sending(connection, waits=not no_wait)
    with exit_on_error():
        answers = sending.carry_out(orders)
        asked = _last_ones(answers)
        if asked and _agrees(asked):
            again = [replace(word.command("retry", str(place)), last=True) for place in asked]
            answers = [one for one in answers if not one.drop("last-attempt")]
            answers += sending.carry_out(again)
        raise typer.Exit(sending.write(answers, as_json=connection.as_json))


def _last_ones(answers: Sequence[Told]) -> list[Place]:
    found = [answer for one in answers for answer in one.answers()]
    return [one.place for one in found if one.answer == "last-attempt" and one.place is not None]


def _agrees(places: Sequence[Place]) -> bool:
    """Whoever is not there to say yes says no."""
    question = (
        f"The next attempt of {', '.join(map(str, places))} is the last: if it fails, the message "
        "goes to the dead letters, or ends the consumer. Attempt it?"
    )
    return confirmed(question)


@with_option_groups
def give_up(
    message: MESSAGE,
    word: Word,
    connection: Connection,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
) -> None:
    """Have a held message sent to the dead letters now, and the next ones handled.

    Asks before. Its consumer must follow the control topic, as with `circuits retry`. It answers
    when the letter is acknowledged, or that it is pending while its sending is tried again.

    Example: linear-retry circuits give-up --group billing --bootstrap localhost:9092
    'orders[3]@812' --yes

    Exit codes: 0, it is in the dead letters; 1, you said no, it is not held (any more), there are
    no dead letters there, or the command has expired; 2, wrong usage; 3, nobody in the group has
    answered, no broker answers, there is no such control topic, or no permission for it; 6,
    accepted, but not sent in time; 130, Ctrl-C; 143, SIGTERM.
    """
    order, sending = word.command("give-up", message), word.sending(connection)
    question = f"Send {message}, held by group {shown(word.group)}, to the dead letters?"
    if not yes and not confirmed(question):
        raise typer.Exit(NEGATIVE)
    with exit_on_error():
        raise typer.Exit(sending.write(sending.carry_out([order]), as_json=connection.as_json))


@with_option_groups
def lift_limit(
    word: Word,
    connection: Connection,
    why: Annotated[str, typer.Option(metavar="TEXT", help="The reason, for the record.")],
    letters: Annotated[
        int | None,
        typer.Option("--for", metavar="LETTERS", min=1, help="For so many dead letters at most."),
    ] = None,
    member: MEMBER = None,
) -> None:
    """Let dead letters go beyond the limit, until the next success.

    What DeadLetters(limit=...) holds is attempted at once, and goes to the dead letters if it fails
    for good. Each member lifts its own limit, and with --for sends so many. The consumers must
    follow the control topic, as with `circuits retry`.

    Example: linear-retry circuits lift-limit --group billing --bootstrap localhost:9092 --for 5000
    --why 'a bad batch of the importer'

    Exit codes: 0, it is lifted; 1, a member has no limit, or the command has expired; 2, wrong
    usage; 3, nobody in the group has answered, no broker answers, there is no such control topic,
    or no permission for it; 6, accepted, but not lifted in time; 130, Ctrl-C; 143, SIGTERM.
    """
    from linear_retry.cli.circuits.send import order_of

    order = Command("", "lift-limit", word.group, None, None, None, word.by or whoami(), 0)
    order = order_of(replace(order, member=member, letters=letters, why=why))
    sending = word.sending(connection)
    with exit_on_error():
        raise typer.Exit(sending.write(sending.carry_out([order]), as_json=connection.as_json))
