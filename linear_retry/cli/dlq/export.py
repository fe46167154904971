"""Exports a dead-letter topic to a file: `dlq export`."""

from pathlib import Path

import typer

from linear_retry.cli.dlq import formats
from linear_retry.cli.output.exit_codes import UNAVAILABLE, fail
from linear_retry.cli.output.progress import ProgressBar
from linear_retry.cli.output.rows import plural, write_json
from linear_retry.dlq import DeadLetterTopic, Filter
from linear_retry.files import printable_path


def export(
    topic: DeadLetterTopic, to: Path, letter_filter: Filter, *, overwrite: bool, as_json: bool
) -> None:
    """Writes the selected letters to a file, which appears when it is complete."""
    if not overwrite and to.exists():
        raise typer.BadParameter(
            f"{printable_path(to)} already exists, and may have the only copy of some "
            "letters; name another file, or write --overwrite",
            param_hint="--to",
        )
    try:
        with ProgressBar(f"exporting {topic.topic}") as bar:
            count = topic.export(to, letter_filter, bar)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        fail(f"{printable_path(to)}: cannot be written ({reason})", UNAVAILABLE)
    if as_json:
        write_json([{"file": printable_path(to), "letters": count, "bytes": to.stat().st_size}])
    else:
        typer.echo(f"{printable_path(to)}: {plural(count)}")
    if not count:
        typer.echo(formats.no_letters(topic.topic, letter_filter), err=True)
