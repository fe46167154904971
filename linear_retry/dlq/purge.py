"""Deletes replayed and resolved letters."""

from dataclasses import dataclass, field
from itertools import islice

from linear_retry.dlq import reading
from linear_retry.dlq.cluster import Cluster
from linear_retry.dlq.letters.letter import State
from linear_retry.dlq.resolution.recording import recording
from linear_retry.dlq.resolution.resolutions import Resolutions
from linear_retry.dlq.spill import SpilledSet
from linear_retry.kafka.topics.reader import Progress

_BATCH = 5_000
_NOTHING = "purge"


@dataclass(slots=True)
class Purge:
    """What a purge deletes: from each partition everything before an offset. Counts are of letters.

    `resolutions_deleted` counts the resolutions of letters that are no longer in the topic.
    """

    before: dict[int, int] = field(default_factory=dict)
    letters: int = 0
    remaining: int = 0
    remaining_open: int = 0
    resolutions_deleted: int = 0


def plan_purge(
    cluster: Cluster,
    topic: str,
    resolutions: Resolutions,
    remaining: SpilledSet,
    progress: Progress | None,
    *,
    everything: bool = False,
    within: Purge | None = None,
) -> Purge:
    """Plans to delete the longest prefix of each partition in which all letters are done.

    With `everything`, all that is in the topic now. `within` is an earlier plan: nothing behind
    its ends is deleted. `remaining` gets the resolution keys of the
    letters that are kept: one may have been written twice, and its resolution applies to both.
    """
    # Asked before the letters are read, so everything before these ends is seen.
    bounds = cluster.reader.bounds(topic)
    ends = {number: end for number, (_, end) in bounds.items()}
    if within is not None:
        ends = {n: min(end, within.before.get(n, bounds[n][0])) for n, end in ends.items()}
    purge = Purge(ends)
    for letter, state in reading.letters(cluster.reader, topic, resolutions, progress=progress):
        before = purge.before[letter.partition]
        if letter.offset < before and (everything or state.is_done):
            purge.letters += 1
            continue
        purge.before[letter.partition] = min(letter.offset, before)
        purge.remaining += 1
        purge.remaining_open += state is State.OPEN
        remaining.add(letter.resolution_key)
    purge.before = {n: end for n, end in purge.before.items() if end > bounds[n][0]}
    purge.resolutions_deleted = sum(key not in remaining for key in resolutions.resolution_keys())
    return purge


def purge(
    cluster: Cluster,
    topic: str,
    progress: Progress | None,
    *,
    everything: bool,
    within: Purge | None = None,
) -> Purge:
    """Deletes letters, and once that is acknowledged, the resolutions of deleted letters.

    If it is interrupted at any point, the next purge continues. Raises `FencedError`,
    `BrokerError`.
    """
    with recording(cluster, topic) as (recorder, resolutions), SpilledSet() as remaining:
        planned = plan_purge(
            cluster,
            topic,
            resolutions,
            remaining,
            progress,
            everything=everything,
            within=within,
        )
        # Deletion is not transactional. This empty transaction checks right before it that we
        # are not fenced: somebody may just have reopened a letter.
        recorder.record([_NOTHING], None)
        cluster.topics.delete_before(topic, planned.before)
        gone = (key for key in resolutions.resolution_keys() if key not in remaining)
        while batch := list(islice(gone, _BATCH)):
            recorder.record(batch, None)
    return planned
