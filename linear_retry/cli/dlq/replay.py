"""Plans and carries out a replay: `dlq replay`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import typer

from linear_retry.cli.dlq import formats
from linear_retry.cli.dlq.knowing import require_known_ids
from linear_retry.cli.dlq.resolve import plural
from linear_retry.cli.options.person import whoami
from linear_retry.cli.output import printable
from linear_retry.cli.output.exit_codes import FENCED, NEGATIVE, UNAVAILABLE, fail, fail_interrupted
from linear_retry.cli.output.progress import ProgressBar
from linear_retry.cli.output.rows import write_json, write_table
from linear_retry.dlq import NO_LETTER, DeadLetterTopic, Filter, NewerMessages, PartitionPlan, Plan
from linear_retry.errors import BrokerError, FencedError
from linear_retry.strategy import delays

_HEAD = ("from", "to", "for", "letters", "offsets", "oldest", "newest")
_NEWER_HEAD = ("key", "from", "letter", "newer messages", "newest")
_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be done."""

    to: str | None
    for_group: str | None
    rate: float | None
    keep_timestamp: bool
    check_newer: bool
    by: str | None
    why: str
    yes: bool
    as_json: bool


def replay_letters(topic: DeadLetterTopic, meant: Filter, order: Order) -> None:
    """Say what would be sent; with `order.yes`, send it."""
    require_known_ids(topic, meant)
    with ProgressBar(f"reading {topic.topic}") as bar:
        plan = topic.plan_replay(
            meant,
            to=order.to,
            keep_timestamp=order.keep_timestamp,
            for_group=order.for_group,
            progress=bar,
        )
    with plan:
        _tell_plan(topic, meant, plan, order)
        absent = _warn_of_absent_groups(topic, plan)
        found = _tell_newer(topic, plan, order) if order.check_newer else 0
        if order.yes and found:
            fail("nothing is sent; without --check-newer it would be", NEGATIVE)
        sent = _send(topic, plan, order) if order.yes and plan.letters else 0
        print_outcome(plan, order, sent, absent)
        if found or any(why != NO_LETTER for why in plan.not_replayable):
            raise typer.Exit(NEGATIVE)


def _send(topic: DeadLetterTopic, plan: Plan, order: Order) -> int:
    so_far = _SoFar(plan.letters)
    with ProgressBar(f"sending {topic.topic}") as bar:

        def progress(done: int, total: int) -> None:
            so_far.sent = done
            bar(done, total)

        try:
            return topic.replay(
                plan, by=order.by or whoami(), why=order.why, rate=order.rate, progress=progress
            )
        except FencedError as error:
            bar.hide()
            fail(f"{error}; {so_far}", FENCED)
        except BrokerError as error:
            bar.hide()
            fail(f"{error}; {so_far}", UNAVAILABLE)
        except KeyboardInterrupt as error:
            bar.hide()
            fail_interrupted(error, f": {so_far}; run it again to go on")


@dataclass(slots=True)
class _SoFar:
    total: int
    sent: int = 0

    def __str__(self) -> str:
        return f"{self.sent} of {plural(self.total)} sent"


def _tell_plan(topic: DeadLetterTopic, meant: Filter, plan: Plan, order: Order) -> None:
    lanes = sorted(plan.partitions, key=lambda lane: (lane.source.topic or "", *_numbers(lane)))
    if order.as_json:
        write_json(_as_json(lane) for lane in lanes)
        return
    if lanes:
        write_table(_HEAD, (_cells(lane) for lane in lanes), ["letters"])
    else:
        open_ones = formats.nothing(topic.topic, meant).replace("no letters", "no open letters", 1)
        typer.echo(f"nothing to do: {open_ones}", err=True)
    for why, count in plan.not_replayable.most_common():
        typer.echo(f"{plural(count)} left open: {why}", err=True)


def _warn_of_absent_groups(topic: DeadLetterTopic, plan: Plan) -> tuple[str, ...]:
    absent = topic.absent_groups(plan)
    for group in absent:
        typer.echo(
            f"warning: consumer group {delays.shown(group)} has no members and no committed "
            "offsets where letters are sent for it, and other groups pass these over: write "
            '--for-group GROUP to send them for another, or --for-group "" for every group',
            err=True,
        )
    return absent


def print_outcome(plan: Plan, order: Order, sent: int, absent: Sequence[str] = ()) -> None:
    """What came of it, or would."""
    if order.as_json:
        said: dict[str, Any] = {"letters": plan.letters, "sent": sent, "dry_run": not order.yes}
        said |= {"left": plan.not_replayable, "absent_groups": list(absent)}
        write_json([said | {"replay_id": plan.replay_id if sent else None}])
    elif order.yes and plan.letters:
        typer.echo(f"{plural(sent)} sent{_passed(plan.letters - sent)}")
    elif plan.letters:
        typer.echo(f"{plural(plan.letters)} would be sent; --yes does it")


def _passed(count: int) -> str:
    return f", {count} dealt with in the meantime" if count else ""


def _tell_newer(topic: DeadLetterTopic, plan: Plan, order: Order) -> int:
    with ProgressBar("reading the source topics") as bar:
        newer = topic.newer_messages(plan, bar)
        shown = list(islice(newer, None if order.as_json else _SHOWN))
        others = sum(1 for _ in newer)
    if order.as_json:
        write_json(_newer_as_json(each) for each in shown)
        return len(shown)
    if not shown:
        typer.echo("no key of these has a newer message")
        return 0
    write_table(_NEWER_HEAD, _newer_cells(shown), ["letter", "newer messages", "newest"])
    if others:
        typer.echo(f"and {plural(others, 'other key')}; --json has all")
    return len(shown) + others


def _newer_cells(found: Iterable[NewerMessages]) -> Iterable[tuple[str, ...]]:
    for each in found:
        place = f"{each.topic}[{each.partition}]"
        numbers = (each.letter, each.messages, each.newest)
        yield (printable.one_line(formats.shown(each.key)), place, *map(str, numbers))


def _newer_as_json(each: NewerMessages) -> dict[str, Any]:
    return {
        **formats.content("key", each.key),
        "topic": each.topic,
        "partition": each.partition,
        "letter_offset": each.letter,
        "newer_messages": each.messages,
        "newest_offset": each.newest,
    }


def _numbers(lane: PartitionPlan) -> tuple[int, int]:
    source = lane.source
    return (
        -1 if source.partition is None else source.partition,
        -1 if source.arrived_in is None else source.arrived_in,
    )


def _cells(lane: PartitionPlan) -> tuple[str, ...]:
    topic, partition, _ = lane.source
    offsets = "as they arrived" if lane.first is None else f"{lane.first} to {lane.last}"
    return (
        "-" if topic is None else printable.one_line(_place(topic, partition)),
        _place(lane.to_topic, lane.to_partition),
        ", ".join(printable.one_line(group) or "every group" for group in sorted(lane.groups)),
        str(lane.letters),
        offsets,
        *("-" if at is None else printable.moment(at) for at in (lane.oldest_ms, lane.newest_ms)),
    )


def _place(topic: str, partition: int | None) -> str:
    return topic if partition is None else f"{topic}[{partition}]"


def _as_json(lane: PartitionPlan) -> dict[str, Any]:
    return {
        "topic": lane.source.topic,
        "partition": lane.source.partition,
        "to_topic": lane.to_topic,
        "to_partition": lane.to_partition,
        "groups": sorted(lane.groups),
        "letters": lane.letters,
        "first_offset": lane.first,
        "last_offset": lane.last,
        "oldest_ms": lane.oldest_ms,
        "newest_ms": lane.newest_ms,
    }
