"""Deletes replayed and resolved letters."""

from dataclasses import dataclass, field
from itertools import islice

from linear_retry.dlq.letters.letter import State, read_letter
from linear_retry.dlq.reading import reading
from linear_retry.dlq.reading.reading import Cluster
from linear_retry.dlq.reading.resolutions import Resolutions
from linear_retry.dlq.reading.spill import SpilledSet
from linear_retry.dlq.replay.checks import RefusedError
from linear_retry.dlq.replay.recording import recording
from linear_retry.kafka.topics.reader import Progress
from linear_retry.records.topics.names import is_dead_letter_name

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


def check_holds_letters(cluster: Cluster, topic: str, progress: Progress | None) -> None:
    """Raises `RefusedError` if the topic holds records and no dead letter among them.

    Such a topic is most likely a source whose name was written by mistake, and all of it would be
    deleted. One whose name says that it is for dead letters is taken at its word. Others' topics,
    of whose headers we know none, are purged only if somebody says that these are dead letters.
    """
    if is_dead_letter_name(topic):
        return
    is_empty = True
    for records in cluster.reader.read(topic, progress):
        if any(read_letter(record).is_dead_letter for record in records):
            return
        is_empty = False
    if not is_empty:
        raise RefusedError(
            [
                f"{topic}: it holds no dead letter, and its name does not say that it is for them: "
                "nothing is deleted; see `linear-retry dlq list` for what is in it. If it is "
                "another system's topic of dead letters, say so: "
                f"`linear-retry dlq purge {topic} --unknown-letters {topic}`"
            ]
        )


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
        if letter.earlier_key is not None:
            remaining.add(letter.earlier_key)
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
    unknown_letters: bool = False,
) -> Purge:
    """Deletes letters, and once that is acknowledged, the resolutions of deleted letters.

    If it is interrupted at any point, the next purge continues. Raises `FencedError`,
    `BrokerError`, and unless `unknown_letters` `RefusedError` for a topic without a dead letter.
    """
    if not unknown_letters:
        check_holds_letters(cluster, topic, progress)
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
