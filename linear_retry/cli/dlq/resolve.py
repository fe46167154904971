"""Resolves, reopens and purges letters: `dlq resolve`, `dlq reopen` and `dlq purge`."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import typer

from linear_retry.cli.dlq import formats
from linear_retry.cli.options.values import whoami
from linear_retry.cli.output.exit_codes import NEGATIVE, fail
from linear_retry.cli.output.progress import ProgressBar
from linear_retry.cli.output.rows import plural, write_json, write_table
from linear_retry.dlq import DeadLetterTopic, Filter, Purge, State


def require_known_ids(topic: DeadLetterTopic, letter_filter: Filter) -> None:
    """Ends with exit code 1 if no letter, in any state, has an id in `letter_filter`."""
    if unknown := unknown_ids(topic, letter_filter.ids):
        fail(formats.no_such_letter(unknown, topic.topic), NEGATIVE)


@dataclass(frozen=True, slots=True)
class LetterIds:
    """Contains the resolution keys of the letters with these ids, with or without generation."""

    ids: frozenset[str]

    def __contains__(self, key: object) -> bool:
        return key in self.ids or str(key).rpartition("#")[0] in self.ids


def unknown_ids(topic: DeadLetterTopic, ids: Iterable[str]) -> tuple[str, ...]:
    """Returns those of `ids` that no letter has, in any state."""
    unknown = dict.fromkeys(ids)
    if unknown:
        with ProgressBar(f"reading {topic.topic}") as bar:
            for letter, _ in topic.letters(Filter(chosen=LetterIds(frozenset(unknown))), bar):
                unknown.pop(letter.id, None)
                unknown.pop(letter.resolution_key, None)
                if not unknown:
                    break
    return tuple(unknown)


def resolve_letters(
    topic: DeadLetterTopic, selected: Filter, *, by: str | None, why: str, yes: bool, as_json: bool
) -> None:
    """Marks the selected open letters as resolved; in a dry run, prints how many."""
    only_open = replace(selected, states=(State.OPEN,))
    resolve = partial(topic.resolve, by=by or whoami(), why=why)
    _record(topic, only_open, resolve, "resolved", yes=yes, as_json=as_json)


def reopen_letters(topic: DeadLetterTopic, selected: Filter, *, yes: bool, as_json: bool) -> None:
    """Reopens the selected letters; in a dry run, prints how many."""
    closed = replace(selected, states=selected.states or (State.REPLAYED, State.RESOLVED))
    _record(topic, closed, topic.reopen, "reopened", yes=yes, as_json=as_json)


def _record(
    topic: DeadLetterTopic,
    selected: Filter,
    record: Callable[..., int],
    what: str,
    *,
    yes: bool,
    as_json: bool,
) -> None:
    require_known_ids(topic, selected)
    with ProgressBar(f"reading {topic.topic}") as bar:
        found = topic.letters(selected, bar)
        count = record(selected, progress=bar) if yes else sum(1 for _ in found)
    if as_json:
        write_json([{"topic": topic.topic, what: count, "dry_run": not yes}])
    elif not count:
        typer.echo(f"nothing to do: {formats.no_letters(topic.topic, selected)}", err=True)
    elif yes:
        typer.echo(f"{plural(count)} {what} in {topic.topic}")
    else:
        typer.echo(f"{plural(count)} would be {what} in {topic.topic}; --yes does it")


def purge_letters(
    topic: DeadLetterTopic, *, everything: bool, unknown_letters: bool, yes: bool, as_json: bool
) -> None:
    """Deletes replayed and resolved letters, or all; in a dry run, prints what it would do."""
    with ProgressBar(f"reading {topic.topic}") as bar:
        act = topic.purge if yes else topic.plan_purge
        purge = act(everything=everything, unknown_letters=unknown_letters, progress=bar)
    if as_json:
        write_json([_purge_json(topic.topic, purge, yes=yes)])
    elif not (purge.before or purge.resolutions_deleted):
        name, left = topic.topic, purge.remaining
        nothing = f"nothing to do in {name}: {_remaining(purge)}" if left else f"{name} is empty"
        typer.echo(nothing, err=True)
    else:
        _print_purge(topic.topic, purge, yes=yes)


def _print_purge(topic: str, purge: Purge, *, yes: bool) -> None:
    rows = [(f"{topic}[{number}]", str(end)) for number, end in sorted(purge.before.items())]
    if rows:
        write_table(("partition", "deleted before"), rows, ["deleted before"])
    done = "deleted" if yes else "would be deleted"
    typer.echo(f"{plural(purge.letters)} {done}; {_remaining(purge)}")
    if purge.resolutions_deleted:
        typer.echo(f"{plural(purge.resolutions_deleted, 'resolution')} of deleted letters {done}")
    if not yes:
        typer.echo("--yes does it; this cannot be undone")


def _remaining(purge: Purge) -> str:
    if not purge.remaining:
        return "none left"
    return f"{plural(purge.remaining)} left, {purge.remaining_open} of them open"


def _purge_json(topic: str, purge: Purge, *, yes: bool) -> dict[str, object]:
    return {
        "topic": topic,
        "dry_run": not yes,
        "deleted": purge.letters,
        "deleted_before": {str(number): end for number, end in sorted(purge.before.items())},
        "remaining": purge.remaining,
        "remaining_open": purge.remaining_open,
        "resolutions_deleted": purge.resolutions_deleted,
    }
