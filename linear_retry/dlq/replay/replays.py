"""Plans replays and carries them out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

from linear_retry.dlq import reading
from linear_retry.dlq.cluster import Cluster
from linear_retry.dlq.letters.filters import Filter
from linear_retry.dlq.letters.letter import Letter, State
from linear_retry.dlq.replay.checks import Facts, RefusedError, check
from linear_retry.dlq.replay.plan import Plan, Planner
from linear_retry.dlq.replay.rate_limit import LARGEST_BATCH, RateLimit
from linear_retry.dlq.replay.replaying import OpenLetters, send
from linear_retry.dlq.resolution.recording import Recorder
from linear_retry.dlq.resolution.resolutions import Resolution, Resolutions
from linear_retry.kafka.topics.reader import Progress
from linear_retry.records.dead_letter import resolutions_topic
from linear_retry.retry.clock import now_ms


def plan_replay(
    cluster: Cluster,
    topic: str,
    resolutions: Resolutions,
    letter_filter: Filter,
    *,
    to: str | None,
    keep_timestamp: bool,
    for_group: str | None,
    progress: Progress | None,
) -> Plan:
    """What a replay of the open letters that the filter means would send. Changes nothing.

    Raises `RefusedError`, with everything that stands in the way, where it cannot be carried out.
    """
    partitions = 1 if to is None else _partitions_of(cluster, to)
    with ExitStack() as unless_planned:
        plan = unless_planned.enter_context(Plan(topic, to, keep_timestamp, for_group))
        letters = _open_letters(cluster, topic, resolutions, letter_filter, progress)
        Planner(plan, cluster.record_at, partitions).take(letters, letter_filter.limit)
        _check(cluster, plan)
        unless_planned.pop_all()
    return plan


def replay(
    cluster: Cluster,
    plan: Plan,
    resolutions: Resolutions,
    *,
    by: str,
    why: str,
    rate: float | None,
    progress: Progress | None,
    largest_batch: int = LARGEST_BATCH,
) -> int:
    """Send what is planned and still open, and record it; return how many were sent.

    `resolutions` are those that the plan was made with: only what has been recorded since is read.
    Whoever else records, or begins to, is fenced: the newest has its way. Raises `FencedError`,
    `BrokerError`.
    """
    if not plan.partitions:
        return 0
    facts = _check(cluster, plan)
    recorder = Recorder(plan.topic, cluster.config, facts, cluster.producer)
    recorder.take_over(cluster.topics)
    # From here on nobody else commits. The order of the next two: see `OpenLetters`.
    bounds = cluster.reading.bounds(plan.topic)
    reading.read_resolutions(cluster.reading, plan.topic, resolutions)
    sent = send(
        plan,
        recorder,
        OpenLetters({number: first for number, (first, _) in bounds.items()}, resolutions),
        lambda: Resolution(State.REPLAYED, by, now_ms(), why, plan.replay_id),
        RateLimit(rate, largest_batch),
        progress or _nobody,
    )
    recorder.settle(cluster.topics)
    return sent


def _open_letters(
    cluster: Cluster,
    topic: str,
    resolutions: Resolutions,
    letter_filter: Filter,
    progress: Progress | None,
) -> Iterator[Letter]:
    # The limit is the planner's: the first that are read are not the oldest of all partitions.
    only_open = replace(letter_filter, states=(State.OPEN,), limit=None)
    found = reading.letters(cluster.reading, topic, resolutions, only_open, progress)
    return (letter for letter, _ in found)


def _partitions_of(cluster: Cluster, target: str) -> int:
    fact = cluster.topics.facts([target])[target]
    if fact is None:
        raise RefusedError(
            [f"{target}: there is no such topic in this cluster; create it, or correct its name"]
        )
    return fact.partitions


def _check(cluster: Cluster, plan: Plan) -> Facts:
    facts = cluster.topics.facts([plan.topic, resolutions_topic(plan.topic), *plan.targets])
    compressed = any(
        key.startswith("compression.") and value != "none" for key, value in cluster.config.items()
    )
    check(plan, facts, now_ms(), compressed=compressed)
    return facts


def _nobody(_: int, __: int) -> None:
    """For who does not ask how far it is."""
