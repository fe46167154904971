"""Deletes letters, or says what would be deleted: `dlq purge`."""

from __future__ import annotations

import typer

from linear_retry.cli.dlq.resolve import plural
from linear_retry.cli.output.progress import ProgressBar
from linear_retry.cli.output.rows import write_json, write_table
from linear_retry.dlq import DeadLetterTopic, Purge


def purge_letters(topic: DeadLetterTopic, *, everything: bool, yes: bool, as_json: bool) -> None:
    """Delete what is dealt with, or all; or say what that would be."""
    with ProgressBar(f"reading {topic.topic}") as bar:
        act = topic.purge if yes else topic.plan_purge
        purge = act(everything=everything, progress=bar)
    if as_json:
        write_json([_as_json(topic.topic, purge, yes=yes)])
    elif not (purge.before or purge.resolutions_deleted):
        typer.echo(f"nothing to do in {topic.topic}: {_staying(purge)}", err=True)
    else:
        _say(topic.topic, purge, yes=yes)


def _say(topic: str, purge: Purge, *, yes: bool) -> None:
    rows = [(f"{topic}[{number}]", str(end)) for number, end in sorted(purge.before.items())]
    if rows:
        write_table(("partition", "deleted before"), rows, ["deleted before"])
    done = "deleted" if yes else "would be deleted"
    typer.echo(f"{plural(purge.letters)} {done}; {_staying(purge)}")
    if purge.resolutions_deleted:
        typer.echo(
            f"{plural(purge.resolutions_deleted, 'resolution')} of letters that are gone {done}"
        )
    if not yes:
        typer.echo("--yes does it: what is deleted is gone")


def _staying(purge: Purge) -> str:
    if not purge.remaining:
        return "none stays"
    stay = "stays" if purge.remaining == 1 else "stay"
    return f"{plural(purge.remaining)} {stay}, {purge.remaining_open} of them open"


def _as_json(topic: str, purge: Purge, *, yes: bool) -> dict[str, object]:
    return {
        "topic": topic,
        "dry_run": not yes,
        "deleted": purge.letters,
        "deleted_before": {str(number): end for number, end in sorted(purge.before.items())},
        "remaining": purge.remaining,
        "remaining_open": purge.remaining_open,
        "resolutions_deleted": purge.resolutions_deleted,
    }
