"""Reports what is wrong with the topics that exist: `topics check`."""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import typer

from linear_retry.cli.output.exit_codes import DONE, NEGATIVE
from linear_retry.cli.output.rows import plural, write_json
from linear_retry.cli.topics import formats
from linear_retry.cli.topics.cluster import find_topics, unused_topics
from linear_retry.records.topics.check import TopicProblem, check_topic
from linear_retry.records.topics.setup import TopicSetup


def check_topics(
    setup: TopicSetup, config: Mapping[str, Any], replication: int | None, *, as_json: bool
) -> None:
    """Prints a line for each problem, or an object for each topic, and ends the command."""
    found = find_topics(config, setup, replication)
    checked = [
        (topic.name, topic.purpose, check_topic(topic, found.descriptions[topic.name]))
        for topic in found.needed
    ]
    checked += [(one.topic, "retry", [one]) for one in unused_topics(config, setup, found)]
    problems = list(chain.from_iterable(problems for _, _, problems in checked))
    if as_json:
        write_json(formats.checked_json(*each) for each in checked)
    else:
        _print(problems, len(checked))
    raise typer.Exit(NEGATIVE if any(one.is_error for one in problems) else DONE)


def _print(problems: Iterable[TopicProblem], topics: int) -> None:
    errors = [one.text for one in problems if one.is_error]
    warnings = [one.text for one in problems if not one.is_error]
    for text in errors:
        typer.echo(f"error: {text}")
    for text in warnings:
        typer.echo(f"warning: {text}")
    counts = f"{plural(len(errors), 'error')}, {plural(len(warnings), 'warning')}"
    typer.echo(f"{plural(topics, 'topic')} checked: {counts}", err=True)
