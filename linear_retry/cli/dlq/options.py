"""The options that commands of `dlq` share."""

from __future__ import annotations

import gc
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from linear_retry.cli.options import connection
from linear_retry.cli.options.values import BY, argument_bytes, past_ms, topic_name
from linear_retry.strategy.delays import shown

if TYPE_CHECKING:
    from linear_retry.dlq import DeadLetterTopic, Filter

TOPIC = Annotated[
    str, typer.Argument(metavar="TOPIC", callback=topic_name, help="The dead-letter topic.")
]
YES = Annotated[bool, typer.Option("--yes", help="Do it. Without this: a dry run.")]
WHY = Annotated[str, typer.Option(metavar="TEXT", help="The reason, for the record.")]

_ORIGIN = re.compile(r"([^:\[\]]+)(?::([0-9]{1,9}))?")
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:/s)?")


class LetterState(StrEnum):
    """Like `linear_retry.dlq.State`, which is loaded only when needed."""

    OPEN = "open"
    REPLAYED = "replayed"
    RESOLVED = "resolved"
    RETRY = "retry"


class Origin(NamedTuple):
    """A topic, and a partition of it or None for all."""

    topic: str
    partition: int | None


def _origin(text: str) -> Origin:
    found = _ORIGIN.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"{shown(text)} is not TOPIC or TOPIC:PARTITION, such as orders:3")
    return Origin(found[1], None if found[2] is None else int(found[2]))


class Header(NamedTuple):
    """A header's name and its whole value."""

    name: str
    value: bytes


def _header(text: str) -> Header:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise typer.BadParameter(f"{shown(text)} is not NAME=VALUE, such as tenant=acme")
    return Header(name, argument_bytes(value))


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        raise typer.BadParameter(
            f"{shown(text)} is not pairs of hexadecimal digits, such as 00ff or 0x00ff"
        ) from None


def _rate(text: str) -> float:
    found = _RATE.fullmatch(text.strip())
    rate = 0.0 if found is None else float(found[1])
    if not 0 < rate < 1e9:
        raise typer.BadParameter(
            f"{shown(text)} is not a rate; write messages per second, such as 100/s or 0.5"
        )
    return rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection(connection.Connection):
    """The cluster, its dead-letter topics, and the output format."""

    def topic(self, name: str) -> DeadLetterTopic:
        """The dead-letter topic of this name. Raises `typer.BadParameter`."""
        from linear_retry.dlq import DeadLetterTopic

        # Reading creates many small objects but no cycles: collection takes a quarter of the time.
        gc.set_threshold(100_000)
        return DeadLetterTopic(name, self.keys())


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Selects letters. All options must match; of a repeated one, any value."""

    reason: Annotated[
        list[str] | None,
        typer.Option(metavar="REASON", help="Why it was given up: exhausted, permanent, ..."),
    ] = None
    exception: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Part of the exception's type or message."),
    ] = None
    origin: Annotated[
        list[Origin] | None,
        typer.Option(
            metavar="TOPIC[:PARTITION]", parser=_origin, help="Where the message came from."
        ),
    ] = None
    not_exception: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Exclude by part of the exception's type or message."),
    ] = None
    not_topic: Annotated[
        list[Origin] | None,
        typer.Option(
            metavar="TOPIC[:PARTITION]",
            parser=_origin,
            help="Exclude messages that came from there.",
        ),
    ] = None
    key: Annotated[
        list[bytes] | None,
        typer.Option(metavar="KEY", parser=argument_bytes, help="The message's key, whole."),
    ] = None
    key_hex: Annotated[
        list[bytes] | None,
        typer.Option(
            metavar="HEX",
            parser=_from_hex,
            help="The key in hexadecimal digits, if it is not text.",
        ),
    ] = None
    no_key: Annotated[
        bool, typer.Option("--no-key", help="Messages without a key; with --key, these as well.")
    ] = False
    since: Annotated[
        int | None,
        typer.Option(
            metavar="TIME",
            parser=past_ms,
            help="Written then or later: 2026-11-21, 2026-11-21T10:00 (UTC), or 2h for two hours "
            "ago.",
        ),
    ] = None
    until: Annotated[
        int | None, typer.Option(metavar="TIME", parser=past_ms, help="Written before that.")
    ] = None
    letter_id: Annotated[
        list[str] | None,
        typer.Option("--id", metavar="ID", help="A letter's id, with or without #generation."),
    ] = None
    header: Annotated[
        list[Header] | None,
        typer.Option(
            metavar="NAME=VALUE",
            parser=_header,
            help="A header of the letter. If repeated, all must match.",
        ),
    ] = None
    state: Annotated[
        list[LetterState] | None,
        typer.Option(metavar="STATE", help="open, replayed, resolved, retry."),
    ] = None
    limit: Annotated[int | None, typer.Option(metavar="N", min=0, help="At most N letters.")] = None

    def filter(self) -> Filter:
        """The filter that these options describe."""
        from linear_retry.dlq import Filter, State

        keys = (*(self.key or ()), *(self.key_hex or ()), *((None,) if self.no_key else ()))
        return Filter(
            reasons=tuple(self.reason or ()),
            exceptions=tuple(self.exception or ()),
            origins=tuple(self.origin or ()),
            keys=keys,
            since_ms=self.since,
            until_ms=self.until,
            ids=tuple(self.letter_id or ()),
            headers=tuple(self.header or ()),
            states=tuple(map(State, self.state or ())),
            limit=self.limit,
            not_exceptions=tuple(self.not_exception or ()),
            not_origins=tuple(self.not_topic or ()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """The target, rate and group of a replay, and the file with its ids."""

    ids: Annotated[
        typer.FileText | None,
        typer.Option(
            metavar="FILE",
            encoding="utf-8-sig",
            errors="replace",
            help="Only letters with an id that is in this file, one on each line, with or without "
            "#generation; - is stdin.",
        ),
    ] = None
    yes: YES = False
    to: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC",
            callback=topic_name,
            help="Send all of them to this topic instead.",
        ),
    ] = None
    to_retry: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC",
            callback=topic_name,
            help="Put all of them into this retry topic of their group, such as that of its first "
            "step: they are handled after its delay, by the retry line, beside live traffic.",
        ),
    ] = None
    for_group: Annotated[
        str | None,
        typer.Option(
            metavar="GROUP",
            help="Send them for this consumer group instead of each letter's; "
            '"" for every group. Other groups skip what is sent to the source topic.',
        ),
    ] = None
    rate: Annotated[
        float | None,
        typer.Option(metavar="N/s", parser=_rate, help="At most N messages per second."),
    ] = None
    keep_timestamp: Annotated[
        bool,
        typer.Option(
            "--keep-timestamp",
            help="Keep each message's timestamp. Refused if the topic's retention would remove "
            "it at once.",
        ),
    ] = False
    check_newer: Annotated[
        bool,
        typer.Option(
            "--check-newer",
            help="Report keys that have newer messages in the source topics; with --yes, send "
            "nothing if there are any. Prints keys.",
        ),
    ] = False
    wait: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0,
            max=3600,
            help="How long to wait until it is known what became of the letters.",
        ),
    ] = 15
    by: BY = None
    why: WHY = ""
