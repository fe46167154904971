"""Resolves and reopens letters: `dlq resolve` and `dlq reopen`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import typer

from linear_retry.cli.dlq import formats
from linear_retry.cli.dlq.knowing import require_known_ids
from linear_retry.cli.options.person import whoami
from linear_retry.cli.output.progress import ProgressBar
from linear_retry.cli.output.rows import write_json
from linear_retry.dlq import DeadLetterTopic, Filter, State


def resolve_letters(
    topic: DeadLetterTopic, meant: Filter, *, by: str | None, why: str, yes: bool, as_json: bool
) -> None:
    """Record of the open letters that are meant that they are dealt with."""
    require_known_ids(topic, meant)
    open_ones = replace(meant, states=(State.OPEN,))
    with ProgressBar(f"reading {topic.topic}") as bar:
        if yes:
            count = topic.resolve(meant, by=by or whoami(), why=why, progress=bar)
        else:
            count = _count(topic, open_ones, bar)
    _tell(topic, open_ones, count, "resolved", yes=yes, as_json=as_json)


def reopen_letters(topic: DeadLetterTopic, meant: Filter, *, yes: bool, as_json: bool) -> None:
    """Take back of those that are meant that they are dealt with."""
    require_known_ids(topic, meant)
    dealt_with = replace(meant, states=meant.states or (State.REPLAYED, State.RESOLVED))
    with ProgressBar(f"reading {topic.topic}") as bar:
        count = topic.reopen(meant, progress=bar) if yes else _count(topic, dealt_with, bar)
    _tell(topic, dealt_with, count, "reopened", yes=yes, as_json=as_json)


def plural(count: int, what: str = "letter") -> str:
    """`1 letter`, `2 letters`."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def _count(topic: DeadLetterTopic, meant: Filter, progress: Callable[[int, int], object]) -> int:
    return sum(1 for _ in topic.letters(meant, progress))


def _why_nothing(topic: DeadLetterTopic, meant: Filter) -> str:
    """Whether there is no such letter, or none in a state that is meant."""
    in_any_state = replace(meant, states=(), limit=None)
    with ProgressBar(f"reading {topic.topic}") as bar:
        count = _count(topic, in_any_state, bar)
    if not count:
        return formats.nothing(topic.topic, in_any_state)
    matching = "letter" if in_any_state == Filter() else "matching letter"
    return f"of {plural(count, matching)} in {topic.topic} none is {' or '.join(meant.states)}"


def _tell(
    topic: DeadLetterTopic, meant: Filter, count: int, what: str, *, yes: bool, as_json: bool
) -> None:
    if as_json:
        write_json([{"topic": topic.topic, what: count, "dry_run": not yes}])
    elif not count:
        typer.echo(f"nothing to do: {_why_nothing(topic, meant)}", err=True)
    elif yes:
        typer.echo(f"{plural(count)} {what} in {topic.topic}")
    else:
        typer.echo(f"{plural(count)} would be {what} in {topic.topic}; --yes does it")
