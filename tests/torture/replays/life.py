"""Runs one replay, from its plan to its end."""

from collections.abc import Callable

from linear_retry.dlq.letters.letter import EVERYTHING, Filter, State
from linear_retry.dlq.reading import reading
from linear_retry.dlq.reading.reading import Cluster
from linear_retry.dlq.reading.resolutions import Resolution, Resolutions
from linear_retry.dlq.replay.plan import Plan
from linear_retry.dlq.replay.replaying import RateLimit, plan_replay, replay

BATCH = 7


def replay_all(
    cluster: Cluster,
    topic: str,
    at_point: Callable[[str], None] = lambda _: None,
    letter_filter: Filter = EVERYTHING,
) -> int:
    """In transactions of few messages; how many were sent."""
    with Resolutions() as resolutions:
        reading.read_resolutions(cluster.reader, topic, resolutions)
        with plan_replay(cluster, Plan(topic), resolutions, letter_filter, None) as plan:
            at_point("planned")
            resolution = Resolution(State.REPLAYED, "test", replay_id=plan.replay_id)
            rate_limit = RateLimit(None, largest_batch=BATCH)
            sent = replay(cluster, plan, resolutions, resolution, rate_limit, None)
            at_point("replayed")
    return sent
