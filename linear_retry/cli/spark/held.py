"""Counts and moves what the scheduler on Spark holds."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import typer

from linear_retry.cli.options.connection import Connection
from linear_retry.cli.output.progress import ProgressBar
from linear_retry.cli.output.rows import plural, write_json, write_table
from linear_retry.records.printable import exact_moment
from linear_retry.spark.ingestion.sources import find_sources
from linear_retry.spark.scheduler import draining
from linear_retry.spark.scheduler.checkpoint import Checkpoint
from linear_retry.spark.scheduler.producer import Progress
from linear_retry.spark.scheduler.query import check_not_read
from linear_retry.spark.scheduler.state import waiting
from linear_retry.spark.session import session

_COUNTS = ("waiting", "due", "within an hour", "within a day")
_HEAD = ("destination", *_COUNTS, "first due", "last due")


def show_stats(path: str, master: str | None, *, as_json: bool) -> None:
    """Prints a row for each destination."""
    with session(master) as spark:
        checkpoint = Checkpoint(spark, path)
        checkpoint.known()
        found = waiting(spark, checkpoint, time.time_ns() // 1_000_000)
    if as_json:
        write_json(asdict(each) for each in found)
        return
    rows = [
        (
            each.destination,
            *map(str, (each.waiting, each.due, each.within_hour, each.within_day)),
            *map(exact_moment, (each.first_due_ms, each.last_due_ms)),
        )
        for each in found
    ]
    if rows:
        write_table(_HEAD, rows, _COUNTS)
    else:
        typer.echo("no message waits", err=True)


def drain(
    connection: Connection,
    topic: str,
    places: tuple[str, str],
    master: str | None,
    *,
    leaves_unread: bool,
    yes: bool,
) -> None:
    """Sends everything that waits to a dead-letter topic; `places` are the path and the topic."""
    config, (path, to) = connection.keys(), places
    check_not_read(topic, to, "--to")
    find_sources(config, [topic, to])  # before Spark starts, which takes seconds
    with session(master) as spark:
        checkpoint = Checkpoint(spark, path)
        if not yes:
            _say_dry_run(spark, checkpoint, to)
            return
        with _progress(to) as progress:
            done = draining.drain(
                spark, config, topic, checkpoint, to, progress, leaves_unread=leaves_unread
            )
    unread = f"; {done.unread} in {topic} were not read" if done.unread else ""
    typer.echo(f"sent to {to}: {plural(done.messages, 'message')}{unread}")


def resize(
    connection: Connection,
    topic: str,
    places: tuple[str, str, int],
    master: str | None,
    *,
    yes: bool,
) -> None:
    """Moves everything that waits; `places` are the old and the new path, and the partitions."""
    config, (path, to, partitions) = connection.keys(), places
    find_sources(config, [topic])
    with session(master) as spark:
        old, new = Checkpoint(spark, path), Checkpoint(spark, to)
        if not yes:
            _say_dry_run(spark, old, to)
            return
        with _progress(to) as progress:
            count = draining.resize(spark, config, topic, old, new, partitions, progress)
    typer.echo(f"moved to {to}: {plural(count, 'message')}")


def _say_dry_run(spark: Any, checkpoint: Checkpoint, to: str) -> None:
    checkpoint.known()
    count = sum(each.waiting for each in waiting(spark, checkpoint, 0))
    typer.echo(f"would send to {to}: {plural(count, 'message')}; do it with --yes")


@contextmanager
def _progress(to: str) -> Iterator[Progress]:
    with ProgressBar(f"sending to {to}") as bar:
        yield lambda done: bar(done, done)
