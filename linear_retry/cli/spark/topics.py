"""Ingests topics into the lake, and replays letters from it: `spark ingest`, `spark replay`."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import typer

from linear_retry.cli.dlq.options import ReplayOptions
from linear_retry.cli.dlq.replay import print_outcome, replay_letters
from linear_retry.cli.options.connection import Connection
from linear_retry.cli.output.progress import ProgressBar
from linear_retry.cli.output.rows import plural, write_json
from linear_retry.dlq import DeadLetterTopic, Plan
from linear_retry.spark import Ingested, Lake
from linear_retry.spark import ingest as run
from linear_retry.spark.ingestion.kafka_options import librdkafka_keys
from linear_retry.spark.ingestion.sources import find_sources
from linear_retry.spark.replaying import Chosen, choose
from linear_retry.spark.session import session


def ingest(
    connection: Connection,
    lake: str,
    topics: Mapping[str, Any],
    batches: Mapping[str, Any],
    master: str | None,
) -> None:
    """Ingests, and prints a line or an object for each topic.

    `topics` and `batches` are arguments of `linear_retry.spark.ingest`.
    """
    config = connection.keys()
    # Asked before Spark starts: a wrong address is reported in seconds.
    find_sources(config, **topics)
    with ProgressBar("ingesting") as progress, session(master) as spark:
        done = run(spark, config, lake, **topics, **batches, progress=progress)
    if connection.as_json:
        write_json([asdict(each) for each in done])
    else:
        for each in done:
            typer.echo(ingested_line(each))


def ingested_line(each: Ingested) -> str:
    """How many rows a topic has become, and what is remarkable about them."""
    remarks = [f"{each.table}: {plural(each.rows, 'row')} of {each.topic}"]
    if each.unreadable:
        remarks.append(f"{each.unreadable} with problems (column `problems`)")
    if each.gone:
        remarks.append(f"{each.gone} offsets were removed before they could be read")
    return "; ".join(remarks)


def replay(
    lake: str, connection: Connection, where: str, options: ReplayOptions, *, master: str | None
) -> None:
    """Chooses the letters with Spark, and replays them from their topic."""
    config, as_json = connection.keys(), connection.as_json
    with ExitStack() as stack:
        # Spark is stopped before anything is sent: its memory is freed, and Ctrl-C is Python's.
        with session(master) as spark:
            letters = stack.enter_context(choose(Lake(spark, lake), config, where))
        _print_chosen(letters, as_json=as_json)
        if letters.topic is None:
            if not as_json:
                typer.echo(f"nothing to do: no letters in {lake} that match", err=True)
            with Plan("") as nothing:
                print_outcome(nothing, 0, yes=options.yes, as_json=as_json)
            return
        with DeadLetterTopic(letters.topic, librdkafka_keys(config)) as topic:
            replay_letters(topic, letters.filter, options, as_json=as_json)


def _print_chosen(letters: Chosen, *, as_json: bool) -> None:
    if as_json:
        write_json([{"topic": letters.topic, "chosen": letters.letters, "gone": letters.gone}])
    elif letters.topic is not None:
        gone = letters.gone
        but = f", {gone} of which a retention or a purge has removed" if gone else ""
        typer.echo(f"{plural(letters.letters)} of {letters.topic} chosen{but}", err=True)
