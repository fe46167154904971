"""Scenarios with several source topics."""

from collections.abc import Callable
from typing import Any, TypeAlias

from tests.scenarios.scene import Scene


class WideScene(Scene):
    """A scene whose guarantees are asked for further topics too. `topic` is the first of them."""

    def __init__(self, *arguments: Any, more_topics: list[str], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.topics = [self.topic, *more_topics]

    def fill(self, topic: str, count: int, partition: int = 0) -> None:
        """So many messages more in this partition of this topic."""
        values = [b"%d" % number for number in range(count)]
        self.write([(partition, None, value, ()) for value in values], topic)

    def visible(self) -> dict[tuple[str, int], list[int]]:
        found: dict[tuple[str, int], list[int]] = {}
        for topic in self.topics:
            for message in self.kafka.read(topic):
                found.setdefault((topic, message.partition() or 0), []).append(
                    message.offset() or 0
                )
        return found

    def committed(self) -> dict[tuple[str, int], int]:
        return {
            (topic, number): offset
            for topic in self.topics
            for number, offset in self.kafka.committed(self.group, topic).items()
        }


WideSceneFactory: TypeAlias = Callable[..., WideScene]
"""`wide_scene(protocol, *partitions, **options)`: one source topic for each number (1, 1)."""
