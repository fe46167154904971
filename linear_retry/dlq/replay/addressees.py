"""Finds the consumer groups that a replay would not reach."""

from __future__ import annotations

from linear_retry.dlq.cluster import Cluster
from linear_retry.dlq.replay.plan import Plan
from linear_retry.scope import Partition


def absent_groups(cluster: Cluster, plan: Plan) -> tuple[str, ...]:
    """Of the groups that the plan's letters are for, those that nobody seems to be in."""
    wanted: dict[str, set[Partition]] = {}
    for lane in plan.partitions:
        for group in lane.groups - {""}:
            wanted.setdefault(group, set()).add((lane.to_topic, lane.to_partition or 0))
    if not wanted:
        return ()
    groups = cluster.groups
    active = groups.active()
    absent = []
    for group in sorted(wanted.keys() - active):
        has_committed = groups.has_committed(group, wanted[group])
        if has_committed is None:
            break  # librdkafka takes no refusal for an answer: each more would cost the time again
        if not has_committed:
            absent.append(group)
    return tuple(absent)
