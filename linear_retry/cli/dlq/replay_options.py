"""The options of commands that replay letters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from linear_retry.cli.options.person import BY
from linear_retry.strategy.delays import shown

if TYPE_CHECKING:
    from linear_retry.cli.dlq.replay import Order

YES = Annotated[bool, typer.Option("--yes", help="Do it. Without this, only say what would be.")]
WHY = Annotated[str, typer.Option(metavar="TEXT", help="Why, for the record.")]

_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:/s)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """Where to, how fast, and on whose behalf."""

    yes: YES = False
    to: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC",
            help="Send all of them there, such as to a retry topic of one consumer group.",
        ),
    ] = None
    for_group: Annotated[
        str | None,
        typer.Option(
            metavar="GROUP",
            help='Send them for this consumer group, in place of that of each letter; "" for '
            "every group. Other groups pass over what is sent to its source topic.",
        ),
    ] = None
    rate: Annotated[
        str | None, typer.Option(metavar="N/s", help="At most so many messages a second.")
    ] = None
    keep_timestamp: Annotated[
        bool,
        typer.Option(
            "--keep-timestamp",
            help="Each message keeps its time, in place of that of sending. Refused where the "
            "topic's retention would remove it at once.",
        ),
    ] = False
    check_newer: Annotated[
        bool,
        typer.Option(
            "--check-newer",
            help="Read the source topics and say which keys have newer messages there; with --yes, "
            "send nothing then. Prints keys.",
        ),
    ] = False
    by: BY = None
    why: WHY = ""

    def order(self, *, as_json: bool) -> Order:
        """What they mean. Raises `typer.BadParameter`."""
        from linear_retry.cli.dlq.replay import Order

        if self.to == "":
            raise typer.BadParameter("the topic's name is empty", param_hint="--to")
        return Order(
            to=self.to,
            for_group=self.for_group,
            rate=None if self.rate is None else _rate(self.rate),
            keep_timestamp=self.keep_timestamp,
            check_newer=self.check_newer,
            by=self.by,
            why=self.why,
            yes=self.yes,
            as_json=as_json,
        )


def _rate(text: str) -> float:
    found = _RATE.fullmatch(text.strip())
    rate = 0.0 if found is None else float(found[1])
    if not 0 < rate < 1e9:
        raise typer.BadParameter(
            f"{shown(text)} is no rate; write messages a second, such as 100/s or 0.5",
            param_hint="--rate",
        )
    return rate
