"""Finds the keys of letters that have newer messages in the letters' original topic."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from linear_retry.dlq.reading.reading import Cluster
from linear_retry.dlq.reading.spill import Spilled
from linear_retry.dlq.replay.outgoing import unpacked
from linear_retry.dlq.replay.plan import PartitionPlan, Plan
from linear_retry.kafka.topics.reader import Progress
from linear_retry.records.lineage import is_returned
from linear_retry.records.record import Record
from linear_retry.records.retry_headers import ORIGINAL_OFFSET
from linear_retry.records.text import whole_number


@dataclass(frozen=True, slots=True)
class NewerMessages:
    """A key, the number of newer messages that have it, and the newest of these.

    `letter` is the offset of the first letter with this key.
    """

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

    A replayed message counts with its original offset: it is not newer than the messages that it
    preceded. Letters without a key, or with an unknown offset, have no newer messages.
    """
    with _Keys() as keys:
        places: dict[str, dict[int, int]] = {}
        for number, planned in enumerate(plan.partitions):
            topic, partition, _ = planned.source
            if topic is not None and partition is not None and planned.first is not None:
                places.setdefault(topic, {})[partition] = number
                keys.add_letters(number, plan)
        for topic, numbers in places.items():
            starts = {n: (plan.partitions[each].first or 0) + 1 for n, each in numbers.items()}
            for records in cluster.reader.read(topic, progress, starts):
                keys.count((numbers[record.partition], record) for record in records)
        for number, planned in enumerate(plan.partitions):
            yield from keys.newer(number, planned)


class _Keys(Spilled):
    """The keys of the letters, in a temporary file if there are many."""

    def __init__(self) -> None:
        super().__init__(
            "CREATE TABLE letter (source INTEGER, key BLOB, first INTEGER, messages INTEGER,"
            " newest INTEGER, PRIMARY KEY (source, key)) WITHOUT ROWID",
            "CREATE TABLE planned (source INTEGER, place INTEGER, PRIMARY KEY (source, place))"
            " WITHOUT ROWID",
        )

    def add_letters(self, source: int, plan: Plan) -> None:
        """Adds the keys of the letters from this source, each with its first offset."""
        self._write(
            "INSERT OR IGNORE INTO planned VALUES (?, ?)",
            ((source, entry.offset) for entry in plan.order.of(source)),
        )
        self._write(
            # In order, so that the first one is kept.
            "INSERT OR IGNORE INTO letter VALUES (?, ?, ?, 0, NULL)",
            (
                (source, key, entry.offset)
                for entry in plan.order.of(source)
                if (key := unpacked(entry.content).key) is not None
            ),
        )

    def count(self, records: Iterable[tuple[int, Record]]) -> None:
        """Counts messages of the topic, except those that the plan contains."""
        self._write(
            "UPDATE letter SET messages = messages + 1, newest = ?"
            " WHERE source = ? AND key = ? AND first < ?"
            " AND NOT EXISTS (SELECT 1 FROM planned WHERE source = ? AND place = ?)",
            (
                (record.offset, source, record.key, place, source, place)
                for source, record in records
                if record.key is not None
                for place in (_first_offset(record),)
            ),
        )

    def newer(self, number: int, planned: PartitionPlan) -> Iterator[NewerMessages]:
        """Yields the keys from this source that have newer messages."""
        topic, partition, _ = planned.source
        for row in self._select(
            "SELECT key, first, messages, newest FROM letter"
            " WHERE source = ? AND messages > 0 ORDER BY first",
            number,
        ):
            yield NewerMessages(topic or "", partition or 0, *row)


def _first_offset(record: Record) -> int:
    headers = dict(record.headers)
    if not is_returned(headers, record.topic):
        return record.offset
    first = whole_number(headers.get(ORIGINAL_OFFSET) or b"")
    return record.offset if first is None else first
