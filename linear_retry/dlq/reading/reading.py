"""Reads the letters of a topic, each with its state, and makes the clients for that."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from linear_retry.dlq.letters.letter import EVERYTHING, Filter, Letter, State, read_letter
from linear_retry.dlq.reading.resolutions import Resolutions
from linear_retry.errors import UnknownTopicError
from linear_retry.kafka import Producer
from linear_retry.kafka.topics.description import Topics
from linear_retry.kafka.topics.groups import Groups
from linear_retry.kafka.topics.reader import Progress, TopicReader
from linear_retry.kafka.topics.standalone_consumer import ANSWER_TIMEOUT_S
from linear_retry.records.dead_letter import resolutions_topic
from linear_retry.records.record import Record
from linear_retry.records.topics.names import is_topic_name


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster. `config` holds librdkafka's keys; `producer` creates the client that writes."""

    config: Mapping[str, Any]
    timeout_s: float = ANSWER_TIMEOUT_S
    producer: Callable[..., Any] = Producer

    @property
    def reader(self) -> TopicReader:
        return TopicReader(self.config, self.timeout_s)

    @property
    def topics(self) -> Topics:
        return Topics(self.config, self.timeout_s)

    @property
    def groups(self) -> Groups:
        return Groups(self.config, self.timeout_s)

    def record_at(self, topic: str, partition: int, offset: int) -> Record | None:
        """The record at this place; None if it is gone."""
        try:
            first, *_ = next(self.reader.read(topic, starts={partition: offset}), [None])
        except UnknownTopicError:
            return None
        return first if first is not None and first.offset == offset else None


def read_resolutions(
    reader: TopicReader, topic: str, resolutions: Resolutions, progress: Progress | None = None
) -> None:
    """Adds the resolutions of the letters of `topic` that were recorded since the last call.

    Adds nothing if the resolutions topic does not exist, or cannot: a name may be too long.
    """
    name = resolutions_topic(topic)
    if not is_topic_name(name):
        return
    try:
        starts = _starts(reader, topic, resolutions) if resolutions.next_offsets else None
        for records in reader.read(name, progress, starts):
            resolutions.add(records)
    except UnknownTopicError:
        resolutions.clear()


def _starts(reader: TopicReader, topic: str, resolutions: Resolutions) -> dict[int, int]:
    bounds = reader.bounds(resolutions_topic(topic))
    if any(offset > bounds.get(n, (0, 0))[1] for n, offset in resolutions.next_offsets.items()):
        resolutions.clear()  # shorter than before, so it was recreated
    return {number: resolutions.next_offsets.get(number, 0) for number in bounds}


def letters(
    reader: TopicReader,
    topic: str,
    resolutions: Resolutions,
    letter_filter: Filter = EVERYTHING,
    progress: Progress | None = None,
) -> Iterator[tuple[Letter, State]]:
    """The letters in `topic` that the filter selects, each partition in order.

    Reads once, from the beginning to the end as of the start, or only the filter's `ranges`.
    Raises `BrokerError`.
    """
    left = letter_filter.limit
    if left == 0:
        return
    matches, state_of = letter_filter.matches, resolutions.state_of
    for records in _records(reader, topic, letter_filter.ranges, progress):
        for record in records:
            letter = read_letter(record)
            state = state_of(letter)
            if matches(letter, state):
                yield letter, state
                left = None if left is None else left - 1
                if left == 0:
                    return


def _records(
    reader: TopicReader,
    topic: str,
    ranges: tuple[tuple[int, int, int], ...] | None,
    progress: Progress | None,
) -> Iterator[list[Record]]:
    if ranges is None:
        yield from reader.read(topic, progress)
        return
    for partition, first, last in ranges:
        for records in reader.read(topic, progress, {partition: first}):
            yield records  # those behind the last one do not match the filter
            if records[-1].offset >= last:
                break
