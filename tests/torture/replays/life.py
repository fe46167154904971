"""Runs one replay, from its plan to its end."""

from __future__ import annotations

from collections.abc import Callable

from linear_retry.dlq import reading
from linear_retry.dlq.cluster import Cluster
from linear_retry.dlq.letters.filters import EVERYTHING, Filter
from linear_retry.dlq.replay.replays import plan_replay, replay
from linear_retry.dlq.resolution.resolutions import Resolutions

BATCH = 7


def replay_all(
    cluster: Cluster,
    topic: str,
    come: Callable[[str], None] = lambda _: None,
    letter_filter: Filter = EVERYTHING,
) -> int:
    """In transactions of few messages; how many were sent."""
    with Resolutions() as resolutions:
        reading.read_resolutions(cluster.reading, topic, resolutions)
        with plan_replay(
            *(cluster, topic, resolutions, letter_filter),
            to=None,
            keep_timestamp=False,
            for_group=None,
            progress=None,
        ) as plan:
            come("planned")
            sent = replay(
                *(cluster, plan, resolutions),
                by="test",
                why="",
                rate=None,
                progress=None,
                largest_batch=BATCH,
            )
            come("replayed")
    return sent
