"""Plans and carries out a replay: `dlq replay`."""

import time
from collections.abc import Iterable
from dataclasses import asdict, replace
from itertools import islice
from typing import Any

import typer

from linear_retry.cli.dlq import formats
from linear_retry.cli.dlq.options import ReplayOptions
from linear_retry.cli.dlq.resolve import LetterIds, require_known_ids, unknown_ids
from linear_retry.cli.options.values import whoami
from linear_retry.cli.output import contents
from linear_retry.cli.output.exit_codes import FENCED, NEGATIVE, UNAVAILABLE, fail, fail_interrupted
from linear_retry.cli.output.progress import ProgressBar
from linear_retry.cli.output.rows import plural, write_json, write_table
from linear_retry.dlq import (
    NO_LETTER,
    DeadLetterTopic,
    Filter,
    Mark,
    NewerMessages,
    Outcome,
    PartitionPlan,
    Plan,
    State,
)
from linear_retry.dlq.reading.spill import SpilledSet
from linear_retry.errors import BrokerError, FencedError
from linear_retry.records import printable
from linear_retry.strategy import delays

_HEAD = ("from", "to", "for", "letters", "offsets", "oldest", "newest")
_NEWER_HEAD = ("key", "from", "letter", "newer messages", "newest")
_SHOWN = 20
_ASK_EVERY_S = 1.0


def replay_letters(
    topic: DeadLetterTopic, selected: Filter, options: ReplayOptions, *, as_json: bool
) -> None:
    """Prints what would be sent; with `--yes`, sends it."""
    if options.to is not None and options.to_retry is not None:
        raise typer.BadParameter("write --to or --to-retry, not both", param_hint="--to-retry")
    require_known_ids(topic, selected)
    unknown = 0
    if options.ids is not None:
        ids = dict.fromkeys(line.strip() for line in options.ids if line.strip())
        selected = replace(selected, chosen=LetterIds(frozenset(ids)))
        unknown = _warn_of_unknown_ids(topic, ids)
    with ProgressBar(f"reading {topic.topic}") as bar:
        plan = topic.plan_replay(
            selected,
            to=options.to,
            to_retry=options.to_retry,
            keep_timestamp=options.keep_timestamp,
            for_group=options.for_group,
            progress=bar,
        )
    with plan:
        _print_plan(topic, selected, plan, as_json=as_json)
        absent = _warn_of_absent_groups(topic, plan)
        found = _print_newer(topic, plan, as_json=as_json) if options.check_newer else 0
        if options.yes and found:
            fail("nothing is sent; leave out --check-newer to send them anyway", NEGATIVE)
        sent, became = 0, None
        if options.yes and plan.letters:
            begun = topic.mark(plan)
            sent = _send(topic, plan, options)
            became = _became(topic, plan, begun, sent, options.wait) if sent else None
        warnings = {"absent_groups": list(absent), "unknown_ids": unknown}
        _print_outcome(plan, sent, warnings, became, yes=options.yes, as_json=as_json)
        is_back = became is not None and became.returned > 0
        if unknown or found or is_back or any(why != NO_LETTER for why in plan.not_replayable):
            raise typer.Exit(NEGATIVE)


def _warn_of_unknown_ids(topic: DeadLetterTopic, ids: Iterable[str]) -> int:
    unknown = unknown_ids(topic, ids)
    if unknown:
        typer.echo(
            f"warning: ids without a letter in {topic.topic}: {len(unknown)}, such as "
            f"{printable.one_line(unknown[0])}; retention or a purge may have removed it",
            err=True,
        )
    return len(unknown)


def _send(topic: DeadLetterTopic, plan: Plan, options: ReplayOptions) -> int:
    done = 0
    with ProgressBar(f"sending {topic.topic}") as bar:

        def progress(behind: int, total: int) -> None:
            nonlocal done
            done = behind
            bar(behind, total)

        def so_far() -> str:
            bar.hide()
            return f"{done} of {plural(plan.letters)} sent"

        by = options.by or whoami()
        try:
            return topic.replay(plan, by=by, why=options.why, rate=options.rate, progress=progress)
        except FencedError as error:
            fail(f"{error}; {so_far()}", FENCED)
        except BrokerError as error:
            fail(f"{error}; {so_far()}", UNAVAILABLE)
        except KeyboardInterrupt as error:
            fail_interrupted(error, f": {so_far()}; run it again to continue")


def _became(
    topic: DeadLetterTopic, plan: Plan, begun: Mark, sent: int, wait_s: float
) -> Outcome | None:
    """Asks what became of them, again and again while somebody reads them; None: no answer."""
    give_up_at_s, known = time.monotonic() + wait_s, None
    with SpilledSet() as names:
        for entry in plan.order:
            names.add(entry.name)
        try:
            active = topic.active_groups()
            is_read = any(group in active for groups in begun.readers.values() for group in groups)
            while (known := topic.outcome(begun, names, sent)) and is_read:
                if known.is_settled or known.unread is None or time.monotonic() >= give_up_at_s:
                    break
                time.sleep(_ASK_EVERY_S)
        except BrokerError as error:
            typer.echo(f"what became of them cannot be asked: {error}", err=True)
        except KeyboardInterrupt as error:
            so_far = "" if known is None else f": {known}"
            fail_interrupted(error, f" after {plural(sent)} sent{so_far}")
    return known


def _print_plan(topic: DeadLetterTopic, selected: Filter, plan: Plan, *, as_json: bool) -> None:
    partitions = sorted(
        plan.partitions, key=lambda planned: (planned.source.topic or "", *_numbers(planned))
    )
    if as_json:
        write_json(_as_json(planned) for planned in partitions)
        return
    if partitions:
        write_table(_HEAD, (_cells(planned) for planned in partitions), ["letters"])
    else:
        only_open = replace(selected, states=(State.OPEN,))
        typer.echo(f"nothing to do: {formats.no_letters(topic.topic, only_open)}", err=True)
    for why, count in plan.not_replayable.most_common():
        typer.echo(f"{plural(count)} left open: {why}", err=True)
    if plan.earlier_open:
        typer.echo(
            f"warning: {plural(plan.earlier_open, 'older open letter')} of the same keys would "
            "stay, and be handled after newer ones: replay or resolve what is older first",
            err=True,
        )


def _warn_of_absent_groups(topic: DeadLetterTopic, plan: Plan) -> tuple[str, ...]:
    absent = topic.absent_groups(plan)
    remedy = (
        "in the retry topic: they wait there until a consumer of that group, the retry line, runs"
        if plan.is_to_retry
        else "where letters are sent for it, and other groups skip these: write --for-group GROUP "
        'to send them for another, or --for-group "" for every group'
    )
    for group in absent:
        typer.echo(
            f"warning: consumer group {delays.shown(group)} has no members and no committed "
            f"offsets {remedy}",
            err=True,
        )
    return absent


def _print_outcome(
    plan: Plan,
    sent: int,
    warnings: dict[str, Any],
    became: Outcome | None,
    *,
    yes: bool,
    as_json: bool,
) -> None:
    """Prints the result of the replay, or of the dry run."""
    if as_json:
        result: dict[str, Any] = {"letters": plan.letters, "sent": sent, "dry_run": not yes}
        result |= {"left": plan.not_replayable, "earlier_open": plan.earlier_open}
        result |= warnings
        result |= {"replay_id": plan.replay_id if sent else None}
        if became is not None:
            places = [place._asdict() for place in became.letters]
            result["became"] = asdict(became) | {"handled": became.handled, "letters": places}
        write_json([result])
    elif yes and plan.letters:
        typer.echo(f"{plural(sent)} sent{_passed(plan.letters - sent)}")
        _print_became(became)
    elif plan.letters:
        typer.echo(f"{plural(plan.letters)} would be sent; --yes does it")


def _print_became(became: Outcome | None) -> None:
    if became is not None:
        typer.echo(f"{became}", err=True)
        for place in became.letters:
            typer.echo(f"dead again: {printable.one_line(str(place))}", err=True)


def _passed(count: int) -> str:
    return f", {count} replayed or resolved in the meantime" if count else ""


def _print_newer(topic: DeadLetterTopic, plan: Plan, *, as_json: bool) -> int:
    with ProgressBar("reading the source topics") as bar:
        newer = topic.newer_messages(plan, bar)
        shown = list(islice(newer, None if as_json else _SHOWN))
        others = sum(1 for _ in newer)
    if as_json:
        write_json(_newer_as_json(each) for each in shown)
        return len(shown)
    if not shown:
        typer.echo("none of their keys has newer messages")
        return 0
    write_table(_NEWER_HEAD, _newer_cells(shown), ["letter", "newer messages", "newest"])
    if others:
        typer.echo(f"and {plural(others, 'other key')}; --json has all")
    return len(shown) + others


def _newer_cells(found: Iterable[NewerMessages]) -> Iterable[tuple[str, ...]]:
    for each in found:
        place = f"{each.topic}[{each.partition}]"
        numbers = (each.letter, each.messages, each.newest)
        yield (printable.one_line(contents.shown(each.key)), place, *map(str, numbers))


def _newer_as_json(each: NewerMessages) -> dict[str, Any]:
    return {
        **formats.content("key", each.key),
        "topic": each.topic,
        "partition": each.partition,
        "letter_offset": each.letter,
        "newer_messages": each.messages,
        "newest_offset": each.newest,
    }


def _numbers(planned: PartitionPlan) -> tuple[int, int]:
    source = planned.source
    return (
        -1 if source.partition is None else source.partition,
        -1 if source.arrived_in is None else source.arrived_in,
    )


def _cells(planned: PartitionPlan) -> tuple[str, ...]:
    topic, partition, _ = planned.source
    offsets = "as they arrived" if planned.first is None else f"{planned.first} to {planned.last}"
    return (
        "-" if topic is None else printable.one_line(_place(topic, partition)),
        _place(planned.to_topic, planned.to_partition),
        ", ".join(printable.one_line(group) or "every group" for group in sorted(planned.groups)),
        str(planned.letters),
        offsets,
        *(
            "-" if at is None else printable.moment(at)
            for at in (planned.oldest_ms, planned.newest_ms)
        ),
    )


def _place(topic: str, partition: int | None) -> str:
    return topic if partition is None else f"{topic}[{partition}]"


def _as_json(planned: PartitionPlan) -> dict[str, Any]:
    return {
        "topic": planned.source.topic,
        "partition": planned.source.partition,
        "to_topic": planned.to_topic,
        "to_partition": planned.to_partition,
        "groups": sorted(planned.groups),
        "letters": planned.letters,
        "first_offset": planned.first,
        "last_offset": planned.last,
        "oldest_ms": planned.oldest_ms,
        "newest_ms": planned.newest_ms,
    }
