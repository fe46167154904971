"""A source topic with its dead-letter topic on a real broker."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from linear_retry.dlq import EVERYTHING, DeadLetterTopic, Filter
from linear_retry.dlq.reading.reading import Cluster
from linear_retry.kafka.consumer.messages import read
from linear_retry.records.dead_letter import (
    DeadLetter,
    FailureInfo,
    resolutions_topic,
    to_dead_letter,
)
from linear_retry.records.record import Record
from linear_retry.records.text import Header
from tests.kafka_operations import KafkaOperations

FIRST_MS = 1_795_000_000_000


@dataclass(frozen=True, slots=True)
class Scene:
    """A source topic and its dead-letter topic."""

    kafka: KafkaOperations
    source: str
    letters: str

    @property
    def topic(self) -> DeadLetterTopic:
        return DeadLetterTopic(self.letters, self.config)

    @property
    def config(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.kafka.bootstrap}

    @property
    def cluster(self) -> Cluster:
        return Cluster(self.config)

    def letter(self, partition: int, offset: int, generation: int = 1, **more: Any) -> DeadLetter:
        """The letter of a message of the source topic."""
        parts = {"key": b"key", "value": b"value", "headers": (("tenant", b"acme"),)} | more
        reason = parts.pop("reason", "exhausted")
        record = Record(self.source, partition, offset, FIRST_MS + offset, **parts)
        made = to_dead_letter(record, FailureInfo("billing", reason, 3, 1, 2, "s@1"))
        return replace(made, generation=generation)

    def add_letters(self, letters: Iterable[DeadLetter], partition: int | None = None) -> None:
        """Write them; each to its own partition, or all to this one."""
        self.kafka.produce(
            self.letters,
            (
                (
                    each.original_partition if partition is None else partition,
                    each.key,
                    each.value,
                    each.headers(),
                )
                for each in letters
            ),
        )

    def write(self, *headers: Header, partition: int = 0, value: bytes | None = b"value") -> None:
        """A record of any kind."""
        self.kafka.produce(self.letters, [(partition, b"key", value, headers)])

    def commits(self, group: str) -> None:
        """This group has read the source topic: an offset of it is committed there."""
        self.kafka.commit(group, self.source, {0: 0})

    def replay(self, letter_filter: Filter = EVERYTHING, **more: Any) -> int:
        """Plan it, and do it; how many were sent."""
        with self.topic as topic, topic.plan_replay(letter_filter, **more) as plan:
            return topic.replay(plan, by="test", why="again")

    def arrived(self, topic: str = "") -> dict[int, list[tuple[int, int]]]:
        """Original offset and generation of what lies in each partition, in order."""
        found: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for message in self.kafka.read(topic or self.source):
            output = dict(read(message).headers)
            life = (
                int(output["retry-original-offset"] or b""),
                int(output["retry-generation"] or b""),
            )
            found[message.partition() or 0].append(life)
        return dict(found)

    def states(self) -> list[str]:
        """Of each letter, by place."""
        with self.topic as topic:
            found = sorted(topic.letters(), key=lambda each: (each[0].partition, each[0].offset))
        return [state.value for _, state in found]

    def recorded(self) -> list[tuple[bytes | None, bytes | None]]:
        """Key and value of what lies in the resolutions topic."""
        found = self.kafka.read(resolutions_topic(self.letters))
        return [(read(each).key, read(each).value) for each in found]


NewScene = Callable[..., Scene]
