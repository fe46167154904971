"""Who is struck, who goes on, and what must be so in the end."""

import json
import random
import signal
import tempfile
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from confluent_kafka import IsolationLevel

from linear_retry import DeadLetters
from linear_retry.scope import Partition, ScopeKind
from linear_retry.testing import Entry, EventEmitted
from tests.kafka_operations import KafkaOperations, wait_until
from tests.scenarios.handlers import Scripted
from tests.scenarios.process import Process
from tests.scenarios.scene import Member, Scene
from tests.testing.violations import done_places
from tests.torture.struck.member import Role, one_topic
from tests.torture.struck.moments import Blow
from tests.torture.struck.points import Point
from tests.torture.struck.presumed import losses, presumed, with_presumed

SESSION_MS = 2000
TRANSACTION_MS = 2000
PARTITIONS = 2
_ASK_EVERY_S = 0.2
_STACKS_S = 0.5


class StruckScene(Scene):
    """A member that is struck at a point of its life, and a group that has to go on."""

    def __init__(
        self,
        kafka: KafkaOperations,
        directory: Path,
        point: Point,
        *,
        scope: ScopeKind,
        config: dict[str, Any],
        name: str,
        transaction_ms: int = TRANSACTION_MS,
        leaves: bool = False,
    ) -> None:
        """`name` is that of its topic. The topics are made, and filled.

        `leaves`: what can never be handled leaves the line, and its letters are in a retry topic.
        """
        plot = point.plot.leaving() if leaves else point.plot
        letters = f"{name}.retry" if leaves else f"{name}.dlq"
        super().__init__(kafka, name, letters, directory, strategy=plot.strategy, config=config)
        self.point, self.plot, self.scope = point, plot, scope
        self._files = directory
        self._transaction_ms = transaction_ms
        self._seen: dict[Partition, set[int]] = {}
        self._presumed: list[EventEmitted] = []
        self.topics = {name, letters, self._dead_letters}
        for topic in self.topics:
            kafka.create_topic(topic, PARTITIONS, {"message.timestamp.type": "LogAppendTime"})
        kafka.set_session(self.group, SESSION_MS)
        for partition in range(PARTITIONS):
            self.produce(plot.messages, partition)
        self.visible()

    def strike(self, rng: random.Random, by: int | None = signal.SIGKILL, **more: Any) -> Process:
        """A process that is struck by this signal, or stands still, at the scene's point.

        `more` are keys for librdkafka.
        """
        moment = self.point.moment
        blow = Blow(
            moment.replace("DeadLettered", "SentToRetry") if self.plot.leaves else moment,
            str(self.struck),
            str(self.go),
            nth=rng.randint(1, self.point.times),
            signal=by,
            into_commit_s=rng.uniform(0.0, 0.02),
        )
        keys = {**self.plot.config, **more}
        role = Role(
            member="first",
            testimony=str(self._files / "first.testimony"),
            config=self.config("first", is_killed=True, **keys),
            topic=self.topic,
            letters=self._dead_letters,
            retries=self.letters if self.plot.leaves else "",
            letters_config=self.letters_config,
            transactional=self.plot.transactional,
            strategy=self.strategy,
            blow=asdict(blow),
            script=self.plot.script,
            stops_at=self.plot.stops_at,
            handler_s=self.plot.handler_s,
            options={"scope": self.scope},
        )
        errors, module = self._files / "first.stderr", "tests.torture.struck.member"
        process = Process(role, errors, self._dies("first"), module)
        self._processes.append(process)
        return process

    def wait_until_struck(self, process: Process) -> None:
        """It has come to its point."""
        wait_until(
            lambda: self.struck.exists() or process.has_ended,
            "it comes to its point",
            detail=self.report,
        )
        assert self.struck.exists(), f"it ended before it came to its point\n{self.report()}"

    def heir(self, name: str, **options: Any) -> Member:
        """Someone who is not struck. What can never be handled he cannot handle either.

        `options` are `LinearConsumer`'s, `config` among them more of librdkafka's keys.
        """
        steps = [self.plot.refusal] * 9
        script = {f"{part}@{offset}": steps for part, offset in self.plot.refused}
        letters = DeadLetters(
            self._dead_letters,
            self.letters_config,
            transactional=self.plot.transactional,
            limit=None,
        )
        options = {"dead_letters": letters, "scope": self.scope, **options}
        if self.plot.leaves:
            options["on_exhausted"] = one_topic(self.letters)
        return self.join(name, Scripted(script), **options)

    def company(self, process: Process) -> list[Member]:
        """Who comes, and may go again, while the first one comes to its point."""
        if self.plot.company == "nobody":
            return []

        def received(kind: str, member: str) -> bool:
            emitted = [entry for entry in self.log() if isinstance(entry, EventEmitted)]
            kinds = [type(one.event).__name__ for one in emitted if one.member == member]
            return kind in kinds or self.struck.exists()

        wait_until(
            lambda: received(self.plot.comes_at, "first"), "they may come", detail=self.story
        )
        other = self.heir("other")
        if self.plot.company == "joins":
            return [other]
        wait_until(lambda: received("Assigned", "other"), "they may go", detail=self.story)
        other.stop()
        return []

    def produce_for_the_heirs(self) -> None:
        """More comes after the blow: who was struck may have done all that there was."""
        for partition in range(PARTITIONS):
            self.produce(1, partition)

    def empty(self, partition: int, before: int) -> None:
        """Retention removes all before this offset. Nobody misses it who had not begun there."""
        self.visible()
        self.kafka.delete_records(self.topic, partition, before)
        if not any(partition == place[1] for place in self.attempts()):
            key = (self.topic, partition)
            self._seen[key] = {offset for offset in self._seen[key] if offset >= before}

    @property
    def _dead_letters(self) -> str:
        return f"{self.topic}.dlq"

    @property
    def struck(self) -> Path:
        return self._files / "struck"

    @property
    def go(self) -> Path:
        return self._files / "go"

    @property
    def letters_config(self) -> dict[str, Any]:
        """Of the producers. A transaction of the dead must not last for long."""
        return {"transaction.timeout.ms": self._transaction_ms} if self.plot.transactional else {}

    def acknowledged(self) -> dict[int, int]:
        """Partition to the offset that the first one, when struck, knew to be committed."""
        reported = json.loads(self.struck.read_text())
        return {partition: offset for _, partition, offset in reported["acknowledged"]}

    @property
    def struck_s(self) -> float:
        at_s: float = json.loads(self.struck.read_text())["at_s"]
        return at_s

    def visible(self) -> dict[Partition, list[int]]:
        """The offsets that a reader finds, or found before retention."""
        for partition, found in super().visible().items():
            self._seen.setdefault(partition, set()).update(found)
        return {partition: sorted(found) for partition, found in self._seen.items()}

    def log(self) -> list[Entry]:
        """Of what all have said, with what `presume_letters` knows better."""
        log = with_presumed(super().log(), self._presumed)
        return sorted(log, key=lambda entry: entry.at_s)

    def presume_letters(self) -> None:
        """What a transaction brought is there, though the first one did not live to say so.

        Or said so only when it was awake again, and others had gone on.
        """
        if self.plot.transactional:
            self.wait_until_decided()
            self._presumed = presumed(self.dead_letters(), self.log(), "first", self.struck_s)

    def letters_amiss(self, may_repeat: Callable[[int, int], bool]) -> list[str]:
        """Each is there once; a plain one may be once more where the answer is yes.

        It is asked with partition and offset.
        """
        self.wait_until_decided()
        found = self.letters_found()
        often = {place for place in found if not self.plot.transactional and may_repeat(*place)}
        lost = {place[1:] for place in done_places(losses(self.log()))}
        due = {place for place in self.plot.refused if place[1] in self._seen_in(place[0])} - lost
        ids = {letter.retry_id for letter in self.dead_letters()}
        return [
            *(f"no letter for {place}" for place in due - set(found)),
            *(
                f"{count} letters for {place}"
                for place, count in found.items()
                if count > 1 + (place in often)
            ),
            *(["letters of one message differ in their id"] if len(ids) > len(found) else []),
        ]

    def _seen_in(self, partition: int) -> set[int]:
        return self._seen.get((self.topic, partition), set())

    def wait_until_decided(self) -> None:
        """Until every letter is there to read, or never will be: no transaction is open."""
        ends = self.kafka.end_offsets
        wait_until(
            lambda: ends(self.letters) == ends(self.letters, IsolationLevel.READ_UNCOMMITTED),
            "no transaction is open",
            detail=self.report,
        )

    def letters_found(self) -> Counter[tuple[int, int]]:
        """How often each message is in the dead-letter topic, for a `read_committed` reader."""
        return Counter(
            (letter.original_partition, letter.original_offset) for letter in self.dead_letters()
        )

    def wait_until_all_is_done(self) -> None:
        """Until all that can be handled is handled: what cannot has been dead-lettered by then.

        Of some letters nobody may know: whoever sent it was struck. And until it is committed: a
        machine that stands still for a while may cost a member its place right before it commits.
        """
        wanted = {(*p, offset) for p, found in self.visible().items() for offset in found}
        wanted -= {(self.topic, *place) for place in self.plot.refused}
        wait_until(lambda: wanted <= done_places(self.log()), "all is done", self.report)
        ends = {partition: found[-1] + 1 for partition, found in self.visible().items()}

        def all_is_committed() -> bool:
            threading.Event().wait(_ASK_EVERY_S)  # each question takes a client of its own
            return self.committed() == ends

        wait_until(all_is_committed, "all is committed", self.report)

    def report(self) -> str:
        """For a person who has to find out why: what happened, and where those stand who live."""
        for process in self._processes:
            if not process.has_ended:
                process.signal(signal.SIGUSR1)
        threading.Event().wait(_STACKS_S)
        return (
            f"{self.point.moment} of {self.plot}, scope {self.scope}, {self.config('first')}\n"
            f"{self.story()}"
        )


@contextmanager
def struck_scene(kafka: KafkaOperations, point: Point, **options: Any) -> Iterator[StruckScene]:
    """Nobody takes part in it any longer afterwards, and its topics are gone."""
    name = f"struck-{uuid.uuid4().hex[:12]}"
    with tempfile.TemporaryDirectory() as directory:
        scene = StruckScene(kafka, Path(directory), point, name=name, **options)
        try:
            yield scene
        finally:
            scene.end()
        for topic in scene.topics:
            kafka.delete_topic(topic)
