"""Both lines on the real broker: one of them begins with a member that is killed."""

import random
import tempfile
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

from confluent_kafka import IsolationLevel

from linear_retry import DeadLetters, RetryTopics
from linear_retry.kafka.consumer.messages import read
from linear_retry.records.dead_letter import DeadLetter, parse
from linear_retry.testing import AttemptFinished, AttemptStarted, RetriedWhenDue, broken
from tests.kafka_operations import KafkaOperations, wait_until
from tests.scenarios.process import Process
from tests.scenarios.retry_scene import RetryScene
from tests.torture.retry_kills.handler import handle
from tests.torture.retry_kills.member import Role
from tests.torture.retry_kills.points import Point
from tests.torture.struck.moments import Blow

DELAYS = ["700ms", "400ms"]
PARTITIONS = 2
_STEPS = (b"0", b"2", b"1", b"9", b"0", b"1")
"""The messages of each partition: how many steps each takes; 9: it is never handled."""
_SESSION_MS = 2000


class KillScene(RetryScene):
    """`first` is killed at the scene's point; heirs go on."""

    def __init__(self, kafka: KafkaOperations, directory: Path, point: Point, name: str) -> None:
        retries = RetryTopics(f"{name}.retry", strategy=DELAYS, limit=None)
        super().__init__(kafka, name, f"{name}.dlq", directory, retries=retries, strategy=[])
        self._point, self._files = point, directory
        quick = {"transaction.timeout.ms": _SESSION_MS} if point.transactional else {}
        self._sent: dict[str, Any] = {
            "config": quick,
            "transactional": point.transactional,
            "limit": None,
        }
        self._letters = DeadLetters(self.letters, **self._sent)
        for topic in (name, self.letters):
            kafka.create_topic(topic, PARTITIONS)
        for topic in retries.topics:
            kafka.create_topic(topic, PARTITIONS, {"message.timestamp.type": "LogAppendTime"})
        for group in (self.group, f"{self.group}.retry"):
            kafka.set_session(group, _SESSION_MS)
        for partition in range(PARTITIONS):
            self.write((partition, None, steps, []) for steps in _STEPS)

    def strike(self, rng: random.Random) -> Process:
        """The process that will be killed. The other line begins in a thread."""
        point, struck = self._point, self._files / "struck"
        blow = Blow(
            point.moment,
            str(struck),
            str(self._files / "go"),
            nth=rng.randint(1, point.times),
            into_commit_s=rng.uniform(0.0, 0.02),
        )
        is_live = point.line == "live"
        role = Role(
            testimony=str(self._files / "first.testimony"),
            config=self.config("first", is_killed=True),
            source=self.topic if is_live else None,
            prefix=self.retries.prefix,
            delays=DELAYS,
            letters={"topic": self.letters, **self._sent},
            blow=asdict(blow),
        )
        errors, module = self._files / "first.stderr", "tests.torture.retry_kills.member"
        process = Process(role, errors, self._dies("first"), module)
        self._processes.append(process)
        (self.retry if is_live else self.live)(handle, "other")
        wait_until(
            lambda: struck.exists() or process.has_ended, "it comes to its point", detail=self.story
        )
        assert struck.exists(), f"it ended before it came to its point\n{self.story()}"
        return process

    def heir(self) -> None:
        """Goes on in the place of who was killed."""
        (self.live if self._point.line == "live" else self.retry)(handle, "second")

    def wait_until_all_is_done(self) -> None:
        """Until both groups have committed all, and nothing is undecided."""
        wait_until(self._is_done, "all is done", detail=self.story)

    def _is_done(self) -> bool:
        ends, topics = self.kafka.end_offsets, (self.topic, *self.retries.topics)
        if any(ends(each) != ends(each, IsolationLevel.READ_UNCOMMITTED) for each in topics):
            return False
        committed = self.committed()
        return all(
            committed.get(partition, 0) > offsets[-1]
            for partition, offsets in self.visible().items()
        )

    # -- what must be so in the end --------------------------------------------------------

    def amiss(self) -> list[str]:
        """What is not as it must be, of each message."""
        early = map(str, broken(self.log(), [RetriedWhenDue(self.retries)]))
        return [*early, *self._ends_amiss(), *self._steps_amiss()]

    def _ends_amiss(self) -> Iterator[str]:
        """Each was handled, or has its letter, and has it only after all steps."""
        handled, dead = self._handled(), {_origin(letter) for letter in self.dead_letters()}
        for partition in range(PARTITIONS):
            for offset, steps in enumerate(_STEPS):
                is_dead = steps == b"9"
                there = (partition, offset) in (dead if is_dead else handled)
                if not there or (partition, offset) in (handled if is_dead else dead):
                    yield f"{partition}@{offset}, which takes {steps!r} steps, has another end"

    def _steps_amiss(self) -> Iterator[str]:
        """Each took its steps in order; in a transaction each once, else the struck one twice."""
        found: dict[tuple[int, int], list[int]] = defaultdict(list)
        for letter in chain(self._hops(), self.dead_letters()):
            # A letter has the step that came before it.
            found[_origin(letter)].append((letter.step or 0) + (letter.retry_at_ms is None))
        twice = 0
        for partition in range(PARTITIONS):
            for offset, steps in enumerate(_STEPS):
                taken = Counter(found[partition, offset])
                wanted = {b"0": 0, b"1": 1, b"2": 2, b"9": 3}[steps]
                if set(taken) != set(range(1, wanted + 1)):
                    yield f"{partition}@{offset} took {taken}, and {wanted} are its steps"
                twice += sum(count - 1 for count in taken.values())
        if twice and self._point.transactional:
            yield f"{twice} hops or letters are there twice, in spite of transactions"

    def _hops(self) -> list[DeadLetter]:
        records = [read(each) for topic in self.retries.topics for each in self.kafka.read(topic)]
        return [parse(record.headers, record.key, record.value) for record in records]

    def _handled(self) -> set[tuple[int, int]]:
        came: dict[tuple[str, object], tuple[int, int]] = {}
        handled = set()
        for entry in self.log():
            match entry:
                case AttemptStarted(_, member, place, None):
                    came[member, place] = place.partition, place.offset
                case AttemptStarted(_, member, place, hop) if hop is not None:
                    _, _, partition, offset, _ = hop.retry_id.rsplit("/", 4)
                    came[member, place] = int(partition), int(offset)
                case AttemptFinished(_, member, place, "done"):
                    handled.add(came[member, place])
        return handled


def _origin(letter: DeadLetter) -> tuple[int, int]:
    return letter.original_partition, letter.original_offset


@contextmanager
def kill_scene(kafka: KafkaOperations, point: Point) -> Iterator[KillScene]:
    """Nobody takes part in it any longer afterwards, and its topics are gone."""
    name = f"kills-{uuid.uuid4().hex[:12]}"
    with tempfile.TemporaryDirectory() as directory:
        scene = KillScene(kafka, Path(directory), point, name)
        try:
            yield scene
        finally:
            scene.end()
        for topic in (scene.topic, scene.letters, *scene.retries.topics):
            kafka.delete_topic(topic)
