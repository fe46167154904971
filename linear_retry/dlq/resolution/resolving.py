"""Resolves letters without sending them, and reopens them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from linear_retry.dlq import reading
from linear_retry.dlq.cluster import Cluster
from linear_retry.dlq.letters.filters import Filter
from linear_retry.dlq.letters.letter import State
from linear_retry.dlq.resolution.recording import Recorder
from linear_retry.dlq.resolution.resolutions import Resolution, Resolutions
from linear_retry.errors import UnknownTopicError
from linear_retry.kafka.topics.reader import Progress
from linear_retry.records.dead_letter import resolutions_topic
from linear_retry.retry.clock import now_ms

_BATCH = 5_000


def resolve(
    cluster: Cluster, topic: str, meant: Filter, by: str, why: str, progress: Progress | None
) -> int:
    """Record of the open letters that are meant that they are dealt with; return how many."""
    resolution = Resolution(State.RESOLVED, by, now_ms(), why)
    return _record(cluster, topic, replace(meant, states=(State.OPEN,)), resolution, progress)


def reopen(cluster: Cluster, topic: str, meant: Filter, progress: Progress | None) -> int:
    """Of those that are dealt with and meant, take that back; return how many."""
    return _record(cluster, topic, dealt_with(meant), None, progress)


def dealt_with(meant: Filter) -> Filter:
    """The same, and not open."""
    states = tuple(state for state in meant.states or tuple(State) if state is not State.OPEN)
    return replace(meant, states=states) if states else replace(meant, limit=0)


def _record(
    cluster: Cluster,
    topic: str,
    meant: Filter,
    resolution: Resolution | None,
    progress: Progress | None,
) -> int:
    facts = cluster.topics.facts([topic, resolutions_topic(topic)])
    if facts[topic] is None:
        raise UnknownTopicError(f"there is no topic {topic!r}; check its name")
    recorder = Recorder(topic, cluster.config, facts, cluster.producer)
    recorder.take_over(cluster.topics)
    count = 0
    # Read once all others are fenced: nobody deals with these in the meantime.
    with Resolutions() as resolutions:
        reading.read_resolutions(cluster.reading, topic, resolutions)
        letters = reading.letters(cluster.reading, topic, resolutions, meant, progress)
        for keys in _batches(letter.resolution_key for letter, _ in letters):
            recorder.record(keys, resolution)
            count += len(keys)
    recorder.settle(cluster.topics)
    return count


def _batches(keys: Iterator[str]) -> Iterator[list[str]]:
    """A letter that was written twice is one."""
    batch: dict[str, None] = {}
    for key in keys:
        batch[key] = None
        if len(batch) >= _BATCH:
            yield list(batch)
            batch.clear()
    if batch:
        yield list(batch)
