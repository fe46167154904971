"""Creates the topics that are missing: `topics create`."""

from collections.abc import Mapping
from typing import Any

import typer

from linear_retry.cli.output.exit_codes import UNAVAILABLE, fail
from linear_retry.cli.output.rows import plural, write_json
from linear_retry.cli.topics.cluster import find_topics
from linear_retry.errors import BrokerError
from linear_retry.kafka.topics.description import Topics
from linear_retry.records.topics.description import NeededTopic
from linear_retry.records.topics.setup import TopicSetup


def create_topics(
    setup: TopicSetup, config: Mapping[str, Any], replication: int | None, *, as_json: bool
) -> None:
    """Prints a line or an object for each topic as soon as its outcome is known."""
    found = find_topics(config, setup, replication)
    topics, failed = Topics(config), 0
    for topic in found.needed:
        outcome, error = "unchanged", None
        if found.descriptions[topic.name] is None:
            outcome, error = _create(topics, topic)
        failed += error is not None
        if as_json:
            write_json([{"topic": topic.name, "outcome": outcome, "error": error}])
        elif error is not None:
            typer.echo(error, err=True)
        else:
            typer.echo(_line(topic, outcome))
    if failed:
        fail(
            f"{plural(failed, 'topic')} of {len(found.needed)} not created; correct what is said "
            "above, and run it again",
            UNAVAILABLE,
        )


def _create(topics: Topics, topic: NeededTopic) -> tuple[str, str | None]:
    """Creates it; returns the outcome, and the error if it failed."""
    try:
        return ("created" if topics.create(topic) else "unchanged"), None
    except BrokerError as error:
        return "failed", str(error)


def _line(topic: NeededTopic, outcome: str) -> str:
    if outcome == "unchanged":
        return f"{topic.name}: exists, unchanged"
    partitions = plural(topic.partitions, "partition")
    return f"{topic.name}: created, {partitions}, replication factor {topic.replication}"
