"""Which commands of `circuits` end a wait, and what do they take?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from linear_retry.cli.connecting import Connection, expanded
from linear_retry.cli.ending import NO, told
from linear_retry.cli.person import BY, whoami
from linear_retry.control import DEFAULT_TOPIC
from linear_retry.delays import shown

if TYPE_CHECKING:
    from linear_retry.control import CommandName

_PLACE = re.compile(r"([^:\[\]@]+)(?:\[([0-9]{1,9})\]|:([0-9]{1,9}))@([0-9]{1,18})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """To whom it is said, by whom, and how long an answer is waited for."""

    group: Annotated[str, typer.Option(metavar="GROUP", help="The consumer group.")]
    control: Annotated[
        str, typer.Option(metavar="TOPIC", help="The topic that its consumers follow.")
    ] = DEFAULT_TOPIC
    by: BY = None
    timeout: Annotated[
        int, typer.Option(metavar="SECONDS", min=1, max=3600, help="How long to wait.")
    ] = 30

    def say(
        self, command: CommandName, place: str, connection: Connection, *, sure: bool = True
    ) -> None:
        """Send it, after a question where that is not `sure`, and print what became of it.

        Raises `typer.BadParameter`, `typer.Exit`.
        """
        found = _PLACE.fullmatch(place)
        if found is None:
            raise typer.BadParameter(
                f"{shown(place)} is not TOPIC[PARTITION]@OFFSET, such as 'orders[3]@812'",
                param_hint="MESSAGE",
            )
        if not self.control:
            raise typer.BadParameter("the topic's name is empty", param_hint="--control")
        keys = connection.keys()
        question = f"Send {place}, held by group {shown(self.group)}, to the dead letters?"
        if not sure and not typer.confirm(question, err=True):
            raise typer.Exit(NO)
        with told():
            from linear_retry.cli.circuits.sending import Sending

            at = found[1], int(found[2] or found[3]), int(found[4])
            sending = Sending(keys, self.control, self.timeout)
            order = sending.order(command, self.group, *at, by=self.by or whoami())
            sending.carry_out(order, as_json=connection.as_json)


MESSAGE = Annotated[
    str,
    typer.Argument(
        metavar="MESSAGE",
        help="The held message, as `circuits list` shows it: 'orders[3]@812', or orders:3@812.",
    ),
]


@expanded
def retry(message: MESSAGE, word: Word, connection: Connection) -> None:
    """Have a held message attempted now, and not only when its time has come.

    Its consumer must follow the control topic: LinearConsumer(control="linear-retry.control"). It
    answers when the attempt begins; what becomes of that is in the journal and in its log. A
    command that nobody has read a minute after it was sent is not carried out any more.

    Example: linear-retry circuits retry --group billing --bootstrap localhost:9092 'orders[3]@812'

    Exit codes: 0, its attempt has begun; 1, it is not held (any more), or the command has expired;
    2, wrong usage; 3, nobody in the group has answered, no broker answers, there is no such
    control topic, or no permission for it; 6, accepted, but not begun in time; 130, Ctrl-C;
    143, SIGTERM.
    """
    word.say("retry", message, connection)


@expanded
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
    no dead letters there, or the command has expired; 2, wrong usage; 3, nobody in the group
    has answered, no broker answers, there is no such control topic, or no permission for it; 6,
    accepted, but not sent in time; 130, Ctrl-C; 143, SIGTERM.
    """
    word.say("give-up", message, connection, sure=yes)
