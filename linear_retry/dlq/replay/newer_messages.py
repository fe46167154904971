"""Finds keys of letters that have newer messages in the topic the letters came from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass

from linear_retry.dlq.cluster import Cluster
from linear_retry.dlq.replay.outgoing import unpacked
from linear_retry.dlq.replay.plan import PartitionPlan, Plan
from linear_retry.dlq.spill import spilling, temporary_database
from linear_retry.kafka.topics.reader import Progress
from linear_retry.records.dead_letter import REPLAY_ID
from linear_retry.records.header_text import whole_number
from linear_retry.records.record import Record


@dataclass(frozen=True, slots=True)
class NewerMessages:
    """A key, how many newer messages have it, and the newest of these. `letter` is the offset of
    the first letter with this key."""

    topic: str
    partition: int
    key: bytes
    letter: int
    messages: int
    newest: int


def newer_messages(
    cluster: Cluster, plan: Plan, progress: Progress | None
) -> Iterator[NewerMessages]:
    """Reads each origin partition from the first letter's offset to its end. Yields by key.

    What was itself replayed counts with the offset that it had first: it is not newer than what it
    was ahead of. Letters without a key, or whose offset nobody knows, have none.
    """
    with spilling(), closing(_Keys()) as keys:
        starts: dict[str, dict[int, int]] = {}
        for number, lane in enumerate(plan.partitions):
            topic, partition, _ = lane.source
            if topic is not None and partition is not None and lane.first is not None:
                starts.setdefault(topic, {})[partition] = lane.first + 1
                keys.learn(number, plan)
        for topic, places in starts.items():
            lanes = {
                lane.source.partition: number
                for number, lane in enumerate(plan.partitions)
                if lane.source.topic == topic and lane.first is not None
            }
            for records in cluster.reading.read(topic, progress, places):
                keys.see((lanes[record.partition], record) for record in records)
        for number, lane in enumerate(plan.partitions):
            yield from keys.newer(number, lane)


class _Keys:
    """The keys of the letters, in a temporary file where they are many."""

    def __init__(self) -> None:
        self._database = temporary_database(
            "CREATE TABLE letter (lane INTEGER, key BLOB, first INTEGER, messages INTEGER,"
            " newest INTEGER, PRIMARY KEY (lane, key)) WITHOUT ROWID",
            "CREATE TABLE planned (lane INTEGER, place INTEGER, PRIMARY KEY (lane, place))"
            " WITHOUT ROWID",
            "BEGIN",
        )

    def close(self) -> None:
        self._database.close()

    def learn(self, lane: int, plan: Plan) -> None:
        """The keys of the letters in this lane, each with its first offset."""
        self._database.executemany(
            "INSERT OR IGNORE INTO planned VALUES (?, ?)",
            ((lane, entry.offset) for entry in plan.order.of(lane)),
        )
        self._database.executemany(
            # In their order, so that the first is the first.
            "INSERT OR IGNORE INTO letter VALUES (?, ?, ?, 0, NULL)",
            (
                (lane, key, entry.offset)
                for entry in plan.order.of(lane)
                if (key := unpacked(entry.content).key) is not None
            ),
        )

    def see(self, records: Iterable[tuple[int, Record]]) -> None:
        """Messages of the topic. Those that are planned are there too, and do not count."""
        self._database.executemany(
            "UPDATE letter SET messages = messages + 1, newest = ?"
            " WHERE lane = ? AND key = ? AND first < ?"
            " AND NOT EXISTS (SELECT 1 FROM planned WHERE lane = ? AND place = ?)",
            (
                (record.offset, lane, record.key, place, lane, place)
                for lane, record in records
                if record.key is not None
                for place in (_first_offset(record),)
            ),
        )

    def newer(self, number: int, lane: PartitionPlan) -> Iterator[NewerMessages]:
        """The keys in this lane that have some."""
        topic, partition, _ = lane.source
        with closing(
            self._database.execute(
                "SELECT key, first, messages, newest FROM letter"
                " WHERE lane = ? AND messages > 0 ORDER BY first",
                (number,),
            )
        ) as rows:
            for row in rows:
                yield NewerMessages(topic or "", partition or 0, *row)


def _first_offset(record: Record) -> int:
    said = dict(record.headers)
    if said.get(REPLAY_ID) is None or said.get("retry-destination") != record.topic.encode():
        return record.offset
    first = whole_number(said.get("retry-original-offset") or b"")
    return record.offset if first is None else first
