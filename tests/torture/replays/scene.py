"""The letters of a replay, each of which has to arrive once, in order."""

import itertools
import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from confluent_kafka import Message

from linear_retry.dlq.reading.reading import Cluster
from linear_retry.kafka.consumer.messages import read
from linear_retry.records.dead_letter import FailureInfo, to_dead_letter
from linear_retry.records.record import Record
from tests.kafka_operations import KafkaOperations
from tests.kafka_operations import Record as Written

PARTITIONS = 3
MESSAGES = 12

_numbers = itertools.count(1)
_FAILURE = FailureInfo("billing", "exhausted", 3, 1, 2, "s@1")


@dataclass(frozen=True, slots=True)
class Scene:
    """A source topic, its dead-letter topic, and the letters in that."""

    kafka: KafkaOperations
    source: str
    letters: str

    @property
    def cluster(self) -> Cluster:
        """As anybody has it."""
        return Cluster({"bootstrap.servers": self.kafka.bootstrap})

    def arrived(self) -> dict[int, list[tuple[int, int]]]:
        """Original offset and generation of what a reader finds in each partition, in order."""
        found: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for message in self.kafka.read(self.source):
            found[message.partition() or 0].append(_life(message))
        return dict(found)

    def amiss(self) -> list[str]:
        """What breaks the promise: each letter arrived once, in the order of the offsets."""
        expected = {
            number: sorted([(offset, 1) for offset in range(MESSAGES)] + [(2, 2), (5, 2)])
            for number in range(PARTITIONS)
        }
        arrived = self.arrived()
        return [
            f"{self.source}[{number}]: {arrived.get(number)}"
            for number in expected
            if arrived.get(number) != expected[number]
        ]


def scene(kafka: KafkaOperations, rng: random.Random) -> Scene:
    """Letters of each partition in any order, two of them of a second life, some written twice."""
    source = f"replayed-{next(_numbers)}-{rng.getrandbits(32):x}"
    made = Scene(kafka, source, f"{source}.dlq")
    kafka.create_topic(made.source, PARTITIONS)
    kafka.create_topic(made.letters, PARTITIONS - 1)
    letters = [
        letter
        for partition, offset in itertools.product(range(PARTITIONS), range(MESSAGES))
        for letter in _lives(source, partition, offset)
    ]
    letters += rng.sample(letters, 4)
    rng.shuffle(letters)
    kafka.produce(made.letters, (_anywhere(letter, rng) for letter in letters))
    return made


def _lives(source: str, partition: int, offset: int) -> Iterable[Written]:
    record = Record(source, partition, offset, 1_700_000_000_000 + offset, b"key", b"value")
    letter = to_dead_letter(record, _FAILURE)
    lives = [letter, replace(letter, generation=2)] if offset in (2, 5) else [letter]
    return [(0, each.key, each.value, each.headers()) for each in lives]


def _anywhere(letter: Written, rng: random.Random) -> Written:
    return (rng.randrange(PARTITIONS - 1), *letter[1:])


def _life(message: Message) -> tuple[int, int]:
    found = dict(read(message).headers)
    return int(found["retry-original-offset"] or b""), int(found["retry-generation"] or b"")
