"""What operators ask of a group's open circuits: retry now, give up, lift the limit."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import get_args

from linear_retry.console.state.audit import Audit
from linear_retry.console.state.settings import Settings
from linear_retry.monitoring.control import (
    CommandSender,
    SentCommand,
    checked_command,
    nobody,
    sentence,
)
from linear_retry.records.control import Command, CommandName
from linear_retry.records.text import whole_number
from linear_retry.scope import Place
from linear_retry.web.security.authentication import RefusedError

_ANSWER_S = 15
_SENTENCES = 5
_TITLES: dict[CommandName, str] = {
    "retry": "Retry now",
    "give-up": "Give up",
    "lift-limit": "Lift the limit",
}


@dataclass(frozen=True, slots=True)
class Order:
    """One order: about these messages, or without any about all circuits of the group.

    `is_last`: messages are attempted even if one more failure would be their last. Without
    messages, `member` means the circuits of this one; `letters` is for how many dead letters a
    limit is lifted, at most.
    """

    command: CommandName
    group: str
    places: tuple[Place, ...] = ()
    is_last: bool = False
    member: str | None = None
    letters: int | None = None

    @classmethod
    def of(cls, fields: Iterable[tuple[str, str]]) -> "Order":
        """Reads the fields of a query or a form. Raises `RefusedError`."""
        found: dict[str, list[str]] = {}
        for name, text in fields:
            found.setdefault(name, []).append(text)
        first = {name: texts[0] for name, texts in found.items()}
        places = tuple(map(Place.of, found.get("message", ())))
        group, wanted = first.get("group", ""), first.get("command")
        member, letters = first.get("member") or None, _letters(first.get("letters"))
        for command in get_args(CommandName):
            messages = tuple(place for place in places if place is not None)
            is_whole = len(messages) == len(places) and bool(group)
            if command == wanted and is_whole and (messages or command != "give-up"):
                return cls(command, group, messages, "last" in found, member, letters)
        raise RefusedError(
            HTTPStatus.UNPROCESSABLE_ENTITY, "this order is incomplete; begin again on the page Now"
        )

    @property
    def title(self) -> str:
        """What the operator does."""
        return _TITLES[self.command]

    @property
    def needs_reason(self) -> bool:
        """Whether it must say why: what it does cannot be taken back."""
        return self.command != "retry"

    @property
    def subject(self) -> str:
        """What it is about, in one line."""
        names = ", ".join(map(str, self.places)) or "all open circuits"
        whose = "" if self.member is None else f"member {self.member} of "
        most = "" if self.letters is None else f", for {self.letters} dead letters"
        return f"{names} of {whose}group {self.group}{most}"


@dataclass(frozen=True, slots=True)
class Given:
    """What came of an order: its number in the audit, and what waits for a last attempt."""

    change: int
    last: tuple[Place, ...] = ()


class Orders:
    """Sends orders over the control topic, as `circuits retry` and its like do."""

    def __init__(self, settings: Settings, audit: Audit) -> None:
        self._settings = settings
        self._audit = audit

    def give(self, order: Order, by: str, why: str) -> Given:
        """Sends an order, and waits for the answers. Raises `RefusedError`, `LinearRetryError`."""
        sender = CommandSender(self._settings.kafka, self._topic(), _ANSWER_S, waits=False)
        action = order.title.lower()
        with self._audit.recording(by, action, order.subject, why=why) as recording:
            sent = sender.send(_commands(order, by, why))
            recording.outcome = _outcome(sender, sent)
        last = tuple(
            answer.place
            for one in sent
            for answer in one.answers()
            if answer.answer == "last-attempt" and answer.place is not None
        )
        return Given(recording.change, last)

    def _topic(self) -> str:
        if self._settings.control is None:
            raise RefusedError(
                HTTPStatus.CONFLICT,
                "no wait can be ended here: the console was started without --control, the topic "
                "that consumers follow",
            )
        return self._settings.control


def _letters(text: str | None) -> int | None:
    if not text:
        return None
    number = whole_number(text.encode("utf-8", "replace"))
    if not number:
        raise RefusedError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"the number of dead letters is {text[:40]!r}: it must be a whole number from 1",
        )
    return number


def _commands(order: Order, by: str, why: str) -> list[Command]:
    reason = why if order.command == "lift-limit" else None
    command = Command(
        command_id="",
        command=order.command,
        group=order.group,
        topic=None,
        partition=None,
        offset=None,
        by=by,
        at_ms=0,
        member=order.member,
        letters=order.letters,
        reason=reason,
        last=order.is_last,
    )
    places = [replace(command, **place._asdict()) for place in order.places]
    return [checked_command(each) for each in places or [command]]


def _outcome(sender: CommandSender, sent: Sequence[SentCommand]) -> str:
    found = [sentence(one.command, answer) for one in sent for answer in one.answers()]
    found += [nobody(one.command, sender.topic, _ANSWER_S) for one in sent if not one.last]
    more = len(found) - _SENTENCES
    return "; ".join(found[:_SENTENCES]) + (f"; and {more} more" if more > 0 else "")
