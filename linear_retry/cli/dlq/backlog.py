"""Writes how many letters dead-letter topics hold as metrics for Prometheus.

In the text format, for node_exporter's textfile collector: a topic is read whole, which is too much
for each scrape of a server, and a line in a crontab needs neither a port nor a process of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import typer

from linear_retry.cli.output.progress import ProgressBar
from linear_retry.dlq import DeadLetterTopic, Filter, Stats

LETTERS = "linear_retry_dlq_letters"
OLDEST_OPEN = "linear_retry_dlq_oldest_open_timestamp_seconds"


def write_backlog(topics: Iterable[DeadLetterTopic], letter_filter: Filter) -> None:
    """Print the metrics of all topics, once all are read: there is never a part of them."""
    found = {}
    for topic in topics:
        with topic, ProgressBar(f"reading {topic.topic}") as bar:
            found[topic.topic] = topic.stats(letter_filter, bar)
    typer.echo("\n".join(exposition(found)))


def exposition(found: Mapping[str, Stats]) -> Iterator[str]:
    """The lines. A topic without an open letter has no oldest one."""
    yield f"# HELP {LETTERS} Dead letters in the topic, by what has become of them"
    yield f"# TYPE {LETTERS} gauge"
    for topic, stats in found.items():
        for state, count in stats.states.items():
            yield f'{LETTERS}{{topic="{topic}",state="{state}"}} {count}'
    yield f"# HELP {OLDEST_OPEN} When the oldest open dead letter was written, in Unix time"
    yield f"# TYPE {OLDEST_OPEN} gauge"
    for topic, stats in found.items():
        if stats.oldest_open_ms is not None:
            yield f'{OLDEST_OPEN}{{topic="{topic}"}} {stats.oldest_open_ms / 1000:.3f}'
