"""Scenarios with retry topics: both lines of a group, in one log."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from linear_retry import DeadLetters, LinearConsumer, RetryTopics, events
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import read
from linear_retry.testing import AttemptStarted
from tests.kafka_operations import wait_until
from tests.scenarios.handlers import OutageError
from tests.scenarios.scene import Member, Scene

Handler: TypeAlias = Callable[[Message], object]


def own_loop(consumer: LinearConsumer, handler: Handler) -> None:
    """A loop of one's own, in place of `run`."""
    for attempt in consumer:
        with attempt as message:
            handler(message)


def run_async(consumer: LinearConsumer, handler: Handler) -> None:
    """`run_async`, in place of `run`."""

    async def handle(message: Message) -> None:
        handler(message)

    asyncio.run(consumer.run_async(handle))


class RetryScene(Scene):
    """A scene whose members read the source, or its retry topics."""

    def __init__(
        self, *arguments: Any, retries: RetryTopics, transactional: bool = False, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self.retries = retries
        self._letters = DeadLetters(self.letters, transactional=transactional, limit=None)

    def live(self, handler: Handler, name: str = "live", **options: Any) -> Member:
        """A member of the live line."""
        chosen = {"on_exhausted": self.retries, "dead_letters": self._letters} | options
        return self.join(name, handler, **chosen)

    def retry(self, handler: Handler, name: str = "retry", **options: Any) -> Member:
        """A member of the retry line, which blocks for nothing."""
        chosen = {"topics": self.retries, "strategy": [], "dead_letters": self._letters} | options
        return self.join(name, handler, **chosen)

    def wait_for_ends(self, count: int) -> None:
        """Until so many messages are handled, dead-lettered or discarded."""
        wait_until(lambda: self._ends() >= count, f"{count} are at their end", detail=self.story)

    def headers(self, topic: str) -> list[dict[str, bytes | None]]:
        """Those of each record in the topic, by partition and offset."""
        return [dict(read(message).headers) for message in self.kafka.read(topic)]

    def steps(self, member: str = "retry") -> list[tuple[str, int]]:
        """The topic of each attempt, and the step that its message had come by."""
        return [
            (entry.place.topic, 0 if entry.hop is None else entry.hop.step)
            for entry in self.log()
            if isinstance(entry, AttemptStarted) and entry.member == member
        ]

    def visible(self) -> dict[tuple[str, int], list[int]]:
        found: dict[tuple[str, int], list[int]] = {}
        for topic in (self.topic, *self.retries.topics):
            for message in self.kafka.read(topic):
                key = (topic, message.partition() or 0)
                found.setdefault(key, []).append(message.offset() or 0)
        return found

    def committed(self) -> dict[tuple[str, int], int]:
        return {
            (topic, number): offset
            for group, topics in (
                (self.group, (self.topic,)),
                (f"{self.group}.retry", self.retries.topics),
            )
            for topic in topics
            for number, offset in self.kafka.committed(group, topic).items()
        }

    def end_well(self, **options: Any) -> list[str]:
        """Stops whoever takes part; the guarantees that do not hold then."""
        for member in self._threads:
            member.stop()
        return self.violations(retries=self.retries, **options)

    def _ends(self) -> int:
        ends = (events.DeadLettered, events.Skipped)
        return len(self.handled()) + sum(len(self.emitted(kind)) for kind in ends)


class Outage:
    """A dependency that is down for as many attempts of a message as its value says; `b"*"`: ever.

    What it has handled is in `seen`, with the number of the attempt.
    """

    def __init__(self) -> None:
        self.seen: list[tuple[bytes, int]] = []
        self._attempts: dict[bytes, int] = {}
        self._lock = threading.Lock()

    def __call__(self, message: Message) -> None:
        name = message.value() or b""
        with self._lock:
            attempts = self._attempts[name] = self._attempts.get(name, 0) + 1
        down_for = name.rpartition(b" ")[2]
        if down_for == b"*" or attempts <= int(down_for):
            raise OutageError(name.decode())
        self.seen.append((name, attempts))


RetrySceneFactory: TypeAlias = Callable[..., RetryScene]
"""`retry_scene(retries, **options)`: `retries` makes `RetryTopics` of a prefix."""
