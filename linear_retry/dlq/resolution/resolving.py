"""Resolves letters without sending them, and reopens them."""

from __future__ import annotations

from dataclasses import replace

from linear_retry.dlq import reading
from linear_retry.dlq.cluster import Cluster
from linear_retry.dlq.letters.filters import Filter
from linear_retry.dlq.letters.letter import State
from linear_retry.dlq.resolution.recording import Recorder
from linear_retry.dlq.resolution.resolutions import Resolution, Resolutions
from linear_retry.kafka.topics.reader import Progress

_BATCH = 5_000


def resolve(
    cluster: Cluster, topic: str, selected: Filter, by: str, why: str, progress: Progress | None
) -> int:
    """Record of the open letters that are selected that they are dealt with; return how many."""
    only_open = replace(selected, states=(State.OPEN,))
    return _record(cluster, topic, only_open, Resolution(State.RESOLVED, by, why=why), progress)


def reopen(cluster: Cluster, topic: str, selected: Filter, progress: Progress | None) -> int:
    """Take that back of those that are dealt with and selected; return how many."""
    states = tuple(state for state in selected.states or tuple(State) if state is not State.OPEN)
    dealt_with = replace(selected, states=states) if states else replace(selected, limit=0)
    return _record(cluster, topic, dealt_with, None, progress)


def _record(
    cluster: Cluster,
    topic: str,
    selected: Filter,
    resolution: Resolution | None,
    progress: Progress | None,
) -> int:
    recorder = Recorder(topic, cluster)
    recorder.fence_others()
    count, batch = 0, dict[str, None]()  # a letter that was written twice is one
    # Read once all others are fenced: nobody deals with these in the meantime.
    with Resolutions() as resolutions:
        reading.read_resolutions(cluster.reader, topic, resolutions)
        for letter, _ in reading.letters(cluster.reader, topic, resolutions, selected, progress):
            batch[letter.resolution_key] = None
            if len(batch) >= _BATCH:
                recorder.record(batch, resolution)
                count += len(batch)
                batch.clear()
    if batch:
        recorder.record(batch, resolution)
    recorder.wait_until_visible()
    return count + len(batch)
