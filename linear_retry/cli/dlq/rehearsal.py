"""Rehearses a replay, and carries out the part that succeeds: `dlq rehearse`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import typer

from linear_retry.cli.dlq.options import ReplayOptions
from linear_retry.cli.dlq.replay import replay_letters
from linear_retry.cli.dlq.resolve import require_known_ids
from linear_retry.cli.output.exit_codes import NEGATIVE
from linear_retry.cli.output.progress import ProgressBar
from linear_retry.cli.output.rows import plural, write_json, write_table
from linear_retry.dlq import DeadLetterTopic, Filter, Plan, State
from linear_retry.dlq.rehearsal.handler_process import HandlerProcess
from linear_retry.dlq.rehearsal.handling import Program
from linear_retry.dlq.rehearsal.rehearsal import Rehearsed, Verdict, rehearse
from linear_retry.records import printable
from linear_retry.strategy import delays

_HEAD = ("letter", "from", "before", "now", "error")


def rehearse_letters(
    topic: DeadLetterTopic,
    selected: Filter,
    program: Program,
    options: ReplayOptions | None,
    *,
    yes: bool,
    as_json: bool,
) -> None:
    """Prints what comes of each letter; with `options`, replays those that would succeed."""
    require_known_ids(topic, selected)
    selected = replace(selected, states=(State.OPEN,))
    with ProgressBar(f"reading {topic.topic}") as bar:
        plan = topic.plan_replay(selected, progress=bar)
    with plan:
        for why, count in plan.not_replayable.most_common():
            typer.echo(f"{plural(count)} left out: {why}", err=True)
        if not yes:
            typer.echo(
                f"{plural(plan.letters)} would be handed to the handler of {program.make}, whose "
                "effects are real; --yes does it"
            )
            return
        passed, verdicts = _rehearsed(topic, selected, plan, program, as_json=as_json)
    if options is not None and passed:
        replay_letters(topic, replace(selected, chosen=passed), options, as_json=as_json)
    if verdicts.total() > verdicts[Verdict.SUCCEEDS]:
        raise typer.Exit(NEGATIVE)


def _rehearsed(
    topic: DeadLetterTopic, selected: Filter, plan: Plan, program: Program, *, as_json: bool
) -> tuple[frozenset[str], Counter[Verdict]]:
    """Prints what comes of each, and the counts; returns the names of those to replay."""
    before = {each.resolution_key: each.exception_type for each, _ in topic.letters(selected)}
    passed: list[str] = []
    verdicts: Counter[Verdict] = Counter()
    left_out: Counter[str] = Counter()
    rows: list[Sequence[str]] = []
    with HandlerProcess(program) as handler, ProgressBar("rehearsing") as bar:
        try:
            for each in rehearse(plan, handler, before, left_out):
                verdicts[each.verdict] += 1
                if each.may_be_replayed:
                    passed.append(each.name)
                if as_json:
                    write_json([_as_json(each)])
                else:
                    rows.append(_cells(each))
                bar(verdicts.total(), plan.letters)
        finally:  # what it has done is done, though Ctrl-C ends it
            bar.hide()
            if rows:
                write_table(_HEAD, rows)
    for group, count in left_out.items():
        typer.echo(f"{plural(count)} left out: of group {delays.shown(group)}", err=True)
    behind = verdicts[Verdict.SUCCEEDS] - len(passed)
    if as_json:
        counts = {each.name.lower(): verdicts[each] for each in Verdict}
        write_json([counts | {"behind": behind, "left_out": left_out.total()}])
    else:
        typer.echo(", ".join(f"{each.value}: {verdicts[each]}" for each in Verdict))
        if behind:
            typer.echo(
                f"{plural(behind)} would overtake one of their key that fails: a replay leaves "
                "them out",
                err=True,
            )
    return frozenset(passed), verdicts


def _cells(each: Rehearsed) -> tuple[str, ...]:
    error = each.error
    waits = " (transient)" if each.is_transient else ""
    text = "-" if error is None else f"{error.type}: {error.message or ''}{waits}"
    place = f"{each.topic}[{each.partition}]@{each.offset}"
    texts = (each.name, place, each.before or "-", each.verdict.value, text)
    return tuple(map(printable.one_line, texts))


def _as_json(each: Rehearsed) -> dict[str, Any]:
    error = each.error
    return {
        "letter": each.name,
        "topic": each.topic,
        "partition": each.partition,
        "offset": each.offset,
        "verdict": each.verdict.name.lower(),
        "before": each.before,
        "exception": None if error is None else error.type,
        "message": None if error is None else error.message,
        "stack": None if error is None else error.stack,
        "transient": each.is_transient,
        "follows_failure": each.follows_failure,
    }
