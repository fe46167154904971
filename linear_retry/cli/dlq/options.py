"""The options that commands of `dlq` share."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from linear_retry.cli.options import connection
from linear_retry.cli.options.moments import moment_ms
from linear_retry.retry.clock import now_ms
from linear_retry.strategy.delays import shown

if TYPE_CHECKING:
    from linear_retry.dlq import DeadLetterTopic, Filter, State

TOPIC = Annotated[str, typer.Argument(metavar="TOPIC", help="The dead-letter topic.")]

_STATES = ("open", "replayed", "resolved")
_ORIGIN = re.compile(r"(?P<topic>[^:\[\]]+)(?::(?P<partition>[0-9]{1,9}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection(connection.Connection):
    """Which cluster, what lies in it, and how the answer is to be written."""

    def topic(self, name: str) -> DeadLetterTopic:
        """The dead-letter topic of this name. Raises `typer.BadParameter`."""
        from linear_retry.dlq import DeadLetterTopic

        if not name:
            raise typer.BadParameter("the topic's name is empty", param_hint="TOPIC")
        # Reading makes many small objects and no cycles: looking for some takes a quarter of it.
        gc.set_threshold(100_000)
        return DeadLetterTopic(name, self.keys())


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which letters. Different options must all hold; of one that is repeated, any."""

    reason: Annotated[
        list[str] | None,
        typer.Option(metavar="REASON", help="Why it was given up: exhausted, permanent, ..."),
    ] = None
    exception: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Part of the exception's type or message."),
    ] = None
    origin: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC[:PARTITION]", help="Where the message came from."),
    ] = None
    not_exception: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Leave out: part of the exception's type or message."),
    ] = None
    not_topic: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC[:PARTITION]", help="Leave out: messages that came from there."),
    ] = None
    key: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="The message's key, whole.")
    ] = None
    key_hex: Annotated[
        list[str] | None,
        typer.Option(metavar="HEX", help="The key as hexadecimal digits, where it is no text."),
    ] = None
    no_key: Annotated[
        bool, typer.Option("--no-key", help="Messages without a key; with --key, these too.")
    ] = False
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Written then or later: 2026-11-21, 2026-11-21T10:00 (UTC), or 2h for two hours "
            "ago.",
        ),
    ] = None
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Written before that.")] = None
    letter_id: Annotated[
        list[str] | None,
        typer.Option("--id", metavar="ID", help="A letter's id, with or without #generation."),
    ] = None
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A header of the letter; repeated, all of them."),
    ] = None
    state: Annotated[
        list[str] | None, typer.Option(metavar="STATE", help=f"{', '.join(_STATES)}.")
    ] = None
    limit: Annotated[int | None, typer.Option(metavar="N", min=0, help="At most so many.")] = None

    def filter(self) -> Filter:
        """What they mean. Raises `typer.BadParameter`."""
        from linear_retry.dlq import Filter

        at_ms = now_ms()
        return Filter(
            reasons=tuple(self.reason or ()),
            exceptions=tuple(self.exception or ()),
            origins=tuple(_origin(text, "--origin") for text in self.origin or ()),
            keys=tuple(self._keys()),
            since_ms=None if self.since is None else moment_ms(self.since, at_ms, "--since"),
            until_ms=None if self.until is None else moment_ms(self.until, at_ms, "--until"),
            ids=tuple(self.letter_id or ()),
            headers=tuple(_header(text) for text in self.header or ()),
            states=tuple(_state(text) for text in self.state or ()),
            limit=self.limit,
            not_exceptions=tuple(self.not_exception or ()),
            not_origins=tuple(_origin(text, "--not-topic") for text in self.not_topic or ()),
        )

    def _keys(self) -> Iterator[bytes | None]:
        yield from map(_bytes, self.key or ())
        yield from map(_from_hex, self.key_hex or ())
        if self.no_key:
            yield None


PAYLOAD = Annotated[
    bool, typer.Option("--payload", help="Print keys and values too; else they stay unprinted.")
]


def chosen(text: str, choices: tuple[str, ...], option: str, at_most: int = 99) -> list[str]:
    """The names in `text`, between commas, each one of `choices`. Raises `typer.BadParameter`."""
    names = list(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in choices or len(names) > at_most:
            raise typer.BadParameter(
                f"{shown(text if len(names) > at_most else name)} is no choice; write "
                f"{'one' if at_most == 1 else 'some'} of {', '.join(choices)}",
                param_hint=option,
            )
    return names


def _origin(text: str, option: str) -> tuple[str, int | None]:
    found = _ORIGIN.fullmatch(text)
    if found is None:
        raise typer.BadParameter(
            f"{shown(text)} is not TOPIC or TOPIC:PARTITION, such as orders:3", param_hint=option
        )
    partition = found["partition"]
    return found["topic"], None if partition is None else int(partition)


def _header(text: str) -> tuple[str, bytes]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise typer.BadParameter(
            f"{shown(text)} is not NAME=VALUE, such as tenant=acme", param_hint="--header"
        )
    return name, _bytes(value)


def _state(text: str) -> State:
    from linear_retry.dlq import State

    if text not in _STATES:
        raise typer.BadParameter(
            f"{shown(text)} is no state; write one of {', '.join(_STATES)}", param_hint="--state"
        )
    return State(text)


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        raise typer.BadParameter(
            f"{shown(text)} is not pairs of hexadecimal digits, such as 00ff or 0x00ff",
            param_hint="--key-hex",
        ) from None


def _bytes(text: str) -> bytes:
    """What was typed: Python keeps bytes of an argument that are no UTF-8 as lone surrogates."""
    return text.encode("utf-8", "surrogateescape")
