"""Takes all that waits out of a stopped scheduler's state."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from threading import Event
from typing import Any

from pyspark.sql import SparkSession

from linear_retry.errors import ConfigurationError, UsageError
from linear_retry.records.record import OutgoingRecord
from linear_retry.scheduler.letters import DRAINED
from linear_retry.spark.ingestion.sources import Source, find_sources
from linear_retry.spark.scheduler.checkpoint import Checkpoint, Marker
from linear_retry.spark.scheduler.held import Held
from linear_retry.spark.scheduler.producer import Letter, Progress, write
from linear_retry.spark.scheduler.query import check_not_read
from linear_retry.spark.scheduler.sender import letter_of
from linear_retry.spark.scheduler.state import in_order
from linear_retry.store import header_bytes

_LOOK_S, _QUIET_S, _OPEN_S = 0.5, 5.0, 30.0
_DRAINED = "it was drained to"
_MOVED = "it was moved to"
_UNREADY = "it is not to be used before the resize of"


@dataclass(frozen=True, slots=True)
class Drained:
    """How many messages were sent; `unread` records are in the topic, and were not read."""

    messages: int
    unread: int


def drain(
    spark: SparkSession,
    config: Mapping[str, Any],
    topic: str,
    checkpoint: Checkpoint,
    to: str,
    progress: Progress = lambda _: None,
    *,
    leaves_unread: bool = False,
    quiet_s: float = _QUIET_S,
) -> Drained:
    """Sends every message that waits to the topic `to` as a dead letter.

    It looks for `quiet_s` whether a scheduler runs, before it begins. The checkpoint cannot be
    resumed from then on. Ended in between, the next call sends all of them again, with the same
    ids. Raises `UsageError` while the scheduler runs, then nothing is lost and the next call sends
    all, and before it begins, unless `leaves_unread`, if there are records in `topic` that the
    scheduler has not read; `ConfigurationError` for another topic's checkpoint, or where `to` is
    `topic`; `UnknownTopicError`, `BrokerError` and `CheckpointError`.
    """
    check_not_read(topic, to, "--to")
    source, _ = find_sources(config, [topic, to])
    marker = _stopped(checkpoint, source, quiet_s)
    if marker.ended is not None and not marker.ended.startswith(_DRAINED):
        raise ConfigurationError(f"{checkpoint.path}: {marker.ended}; nothing is left to drain")
    if marker.ended is None and not leaves_unread:
        _check_all_read(topic, _unread(checkpoint, marker, source))
    checkpoint.write(replace(marker, ended=f"{_DRAINED} {to}"))
    batch = checkpoint.last_batch()

    def letter(held: Held) -> Letter:
        return letter_of(held._replace(reason=held.reason or DRAINED), topic, to)

    count = write(config, map(letter, in_order(spark, checkpoint)), progress)
    _check_last(checkpoint, batch)
    return Drained(count, _unread(checkpoint, marker, source))


def resize(
    spark: SparkSession,
    config: Mapping[str, Any],
    topic: str,
    checkpoint: Checkpoint,
    to: Checkpoint,
    partitions: int,
    progress: Progress = lambda _: None,
    *,
    quiet_s: float = _QUIET_S,
) -> int:
    """Moves every message that waits to a new checkpoint with that many partitions.

    They go through the scheduler's topic, of which the new one reads what the old one has not read,
    and these; returns how many. The old checkpoint cannot be resumed from then on, the new one once
    all is sent. `quiet_s` is as for `drain`. Raises as that, and `ConfigurationError` where `to` is
    in use.
    """
    (source,) = find_sources(config, [topic])
    marker = _stopped(checkpoint, source, quiet_s)
    moving = f"{_MOVED} {to.path}"
    if marker.ended not in (None, moving):
        raise ConfigurationError(f"{checkpoint.path}: {marker.ended}; nothing is left to move")
    new = Marker(topic=topic, topic_id=source.topic_id, partitions=partitions)
    unready = replace(new, ended=f"{_UNREADY} {checkpoint.path} has ended")
    if to.marker() not in (None, unready):
        raise ConfigurationError(f"{to.path}: it is in use already; name a new directory")
    to.write(unready)
    checkpoint.write(replace(marker, ended=moving))
    # Before the copy: what is read behind it, the new one has to read too.
    batch, read = checkpoint.last_batch(), checkpoint.end_offsets(topic)
    count = write(config, map(_again(topic), in_order(spark, checkpoint)), progress)
    _check_last(checkpoint, batch)
    to.write(replace(new, starting=read or marker.starting))
    return count


def _again(topic: str) -> Callable[[Held], Letter]:
    def record(held: Held) -> Letter:
        headers = header_bytes.read(held.headers)
        return OutgoingRecord(topic, held.key, held.value, headers, held.partition), iter(())

    return record


def _stopped(checkpoint: Checkpoint, source: Source, quiet_s: float) -> Marker:
    """Returns the marker. Raises `UsageError` if a micro-batch begins meanwhile."""
    marker, before = checkpoint.open(source.topic, source.topic_id), checkpoint.last_planned()
    # One that is not committed was killed, or is under way and may take long.
    is_open = before != checkpoint.last_batch()
    for _ in range(round((_OPEN_S if is_open else quiet_s) / _LOOK_S)):
        Event().wait(_LOOK_S)
        if checkpoint.last_planned() != before:
            raise UsageError(
                f"{checkpoint.path}: a scheduler runs on it, and what it sends would be sent "
                "twice; stop it first"
            )
    return marker


def _check_last(checkpoint: Checkpoint, batch: int | None) -> None:
    if checkpoint.last_batch() != batch:
        raise UsageError(
            f"{checkpoint.path}: a scheduler has run on it meanwhile, and not all that it holds is "
            "copied; stop it, and begin again"
        )


def _check_all_read(topic: str, unread: int) -> None:
    if unread:
        raise UsageError(
            f"{topic}: {unread} of its records are not read yet, which nothing would send: "
            "stop what writes there, run the scheduler until it has read them, stop it, and drain "
            "again; --leave-unread leaves them, and only a new checkpoint reads them then, with "
            "all else that is in the topic"
        )


def _unread(checkpoint: Checkpoint, marker: Marker, source: Source) -> int:
    read = checkpoint.end_offsets(source.topic) or marker.starting
    return sum(end - max(read.get(str(n), 0), first) for n, (first, end) in source.bounds.items())
