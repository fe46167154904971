"""Sends the letters of a plan, in their order, each once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from linear_retry.dlq.replay.order import Entry, together
from linear_retry.dlq.replay.outgoing import place_of, unpacked
from linear_retry.dlq.replay.plan import PartitionPlan, Plan
from linear_retry.dlq.replay.rate_limit import RateLimit
from linear_retry.dlq.resolution.recording import Recorder
from linear_retry.dlq.resolution.resolutions import Resolution, Resolutions, encoded
from linear_retry.kafka.topics.reader import Progress
from linear_retry.records.record import OutgoingRecord

_BATCH_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True)
class OpenLetters:
    """How it stands once all others are fenced.

    `beginnings` are the first offsets of the dead-letter topic's partitions, asked before
    `resolutions` were read. The order matters: a purge removes letters first, and then what is
    recorded of them. Asked the other way round, a letter that was dealt with could look open.
    """

    beginnings: Mapping[int, int]
    resolutions: Resolutions


def send(
    plan: Plan,
    recorder: Recorder,
    standing: OpenLetters,
    resolution: Callable[[], Resolution],
    pace: RateLimit,
    progress: Progress,
) -> int:
    """Send what is still open, each batch with its records in one transaction; return how many.

    `progress` is told after each: what it was told of is sent. Raises `FencedError`, `BrokerError`.
    """
    sent = passed = 0
    total = plan.letters

    def still_open() -> Iterator[Entry]:
        nonlocal passed
        # PartitionPlan by lane, a low rate would let the last partition wait for all before it.
        for entry in plan.order:
            if _is_open(entry, standing):
                yield entry
            else:
                passed += 1

    for batch in together(still_open(), pace.largest_batch, _BATCH_BYTES):
        pace.await_turn(len(batch))
        value = encoded(resolution())
        records: list[OutgoingRecord] = []
        for entry in batch:
            records.append(_message(entry, plan.partitions[entry.lane], plan.keep_timestamp))
            records.append(recorder.resolution(entry.name, value))
        recorder.commit(records)
        sent += len(batch)
        progress(sent + passed, total)
    return sent


def _is_open(entry: Entry, standing: OpenLetters) -> bool:
    partition, offset = place_of(entry.content)
    is_there = offset >= standing.beginnings.get(partition, 0)
    return is_there and not standing.resolutions.has(entry.name)


def _message(entry: Entry, lane: PartitionPlan, keep_timestamp: bool) -> OutgoingRecord:
    message = unpacked(entry.content)
    keeps = keep_timestamp and message.timestamp_ms >= 0
    return OutgoingRecord(
        lane.to_topic,
        message.key,
        message.value,
        message.headers,
        lane.to_partition,
        message.timestamp_ms if keeps else None,
    )
