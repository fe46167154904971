"""The members of a soak, and what is measured of them."""

import json
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from linear_retry import events
from linear_retry.records.topics.names import retry_group
from linear_retry.retry.clock import SystemClock
from linear_retry.scope import AnyScope, Place
from linear_retry.testing import AttemptFinished, Entry, EventEmitted, EventLog
from tests import dying_with_parent
from tests.kafka_operations import KafkaOperations, wait_until
from tests.patience import PATIENCE_S
from tests.scenarios.protocols import PROTOCOLS
from tests.scenarios.testimony import Written, read_new, read_testimony
from tests.soak.course import Course, Happening
from tests.soak.gauges import gauge
from tests.soak.lines import Life, Look
from tests.soak.member import POISON, Role, retry_topics

MEMBERS, PARTITIONS = 3, 12
STRATEGY = [0.1, 0.2, 0.4]
"""Shorter than the longest outage: some messages leave the line, except where keys are in order."""
KEYS = 100

_CHECKOUT = Path(__file__).parents[2]
_TICK_S = 0.05


@dataclass(slots=True)
class Process:
    """A member's process, what it writes, and what was seen of it."""

    role: Role
    popen: subprocess.Popen[bytes]
    life: Life
    read_bytes: int = 0


@dataclass(slots=True)
class Status:
    """What the one who waits wants to see."""

    passed_s: float = 0.0
    produced: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    resident_bytes: list[int] = field(default_factory=list)


class Soak:
    """Members in processes of their own, a dependency that fails, somebody who kills."""

    def __init__(
        self,
        kafka: KafkaOperations,
        directory: Path,
        course: Course,
        *,
        topic: str = "orders",
        letters: str = "orders.dlq",
        protocol: str = "cooperative",
        scope: AnyScope = "consumer",
    ) -> None:
        """`topic` has `PARTITIONS`, and is empty; `directory` takes what the members write.

        Its retry topics are made. With the scope `key` there are none, and some keys fail as long
        as anything does.
        """
        self.kafka, self.topic, self.letters, self.course = kafka, topic, letters, course
        self.retries = None if scope == "key" else retry_topics(f"{topic}.retry")
        for each in self._retry_topics:
            kafka.create_topic(each, PARTITIONS, {"message.timestamp.type": "LogAppendTime"})
        self.group = f"soak-of-{topic}"
        self.lives: list[Life] = []
        self.committed: dict[tuple[str, int], int] = {}
        self.status = Status()
        self._protocol, self._scope, self._directory = protocol, scope, directory
        self._rng = random.Random(course.seed)
        self._processes: list[Process] = []
        self._dead: list[Process] = []
        self._numbers = count(1)
        self._sent: Counter[int] = Counter()
        self._refused: list[KafkaError] = []
        self._poisoned: set[tuple[int, int]] = set()
        self._outage = directory / "outage"
        self._closed = directory / "closed"
        self.keys: dict[Place, bytes | None] = {}
        """Of all messages, where a key is the unit of order."""
        self._witness = EventLog(_now_s, Written(directory / "testimony"))

    def run(self, show: Callable[[Status], object] = lambda _: None) -> None:
        """Until the course is over, everything is done, and everybody has left."""
        try:
            for _ in range(MEMBERS):
                self._spawn(self.topic)
            if self.retries is not None:
                self._spawn("")
            self._closed.touch()
            self._play(show)
            self._closed.unlink()
            wait_until(self._is_all_committed, "everything is committed", self._errors)
            for process in self._processes:
                process.popen.send_signal(signal.SIGTERM)
            for process in self._processes:
                code = process.popen.wait(PATIENCE_S)
                assert code == 0, f"{process.role.member} ended with {code}\n{self._errors()}"
            self._listen()
            for process in [*self._dead, *self._processes]:
                process.life.looks = _looks(Path(process.role.retained))
        finally:
            for process in self._processes:
                process.popen.kill()
                process.popen.wait()

    def log(self) -> list[Entry]:
        """What all members did, what there was to do, and who died, in the order of time."""
        everybody = [*self._dead, *self._processes]
        theirs = [Path(process.role.testimony) for process in everybody]
        logs = [read_testimony(file) for file in (self._directory / "testimony", *theirs)]
        return sorted((entry for log in logs for entry in log), key=lambda entry: entry.at_s)

    def visible(self) -> dict[tuple[str, int], range]:
        """The offsets that were acknowledged, and those in the retry topics."""
        return {(self.topic, number): range(sent) for number, sent in self._sent.items()} | {
            (topic, number): range(end)
            for topic in self._retry_topics
            for number, end in self.kafka.end_offsets(topic).items()
        }

    @property
    def _retry_topics(self) -> tuple[str, ...]:
        return () if self.retries is None else self.retries.topics

    def poisoned(self) -> set[tuple[str, int, int]]:
        """The messages that nobody can handle."""
        return {(self.topic, *place) for place in self._poisoned}

    def _play(self, show: Callable[[Status], object]) -> None:
        begun_s, look_at_s = _now_s(), 0.0
        coming = self.course.happenings()
        with self._producing() as produce_up_to:
            while self.status.passed_s < self.course.seconds or coming:
                produce_up_to(int(self.status.passed_s * self.course.messages_per_s))
                while coming and coming[0][0] <= self.status.passed_s:
                    self._happen(coming.pop(0)[1])
                if self.status.passed_s >= look_at_s:
                    look_at_s = self.status.passed_s + self.course.look_every_s
                    self._look()
                    show(self.status)
                self.status.passed_s = _now_s() - begun_s
            produce_up_to(int(self.course.seconds * self.course.messages_per_s))

    def _happen(self, what: Happening) -> None:
        self.status.counts[what] += 1
        match what:
            case "outage":
                self._outage.touch()
            case "repaired":
                self._outage.unlink(missing_ok=True)
            case "kill":
                self._kill()

    def _kill(self) -> None:
        # The first one lives from beginning to end: its lines are the longest.
        victim = self._rng.choice(self._processes[1:])
        victim.popen.kill()
        victim.popen.wait()
        self._witness.crashed(victim.role.member)
        victim.life.killed = True
        self._processes.remove(victim)
        self._dead.append(victim)
        self._spawn(victim.role.topic)

    def _spawn(self, topic: str) -> None:
        member = f"member-{next(self._numbers)}"
        role = Role(
            member=member,
            testimony=str(self._directory / f"{member}.testimony"),
            retained=str(self._directory / f"{member}.retained"),
            outage=str(self._outage),
            closed="" if self.retries is not None else str(self._closed),
            config=self._config(member),
            topic=topic,
            prefix="" if self.retries is None else self.retries.prefix,
            letters=self.letters,
            strategy=STRATEGY if topic else [],
            scope=self._scope,
            look_every_s=self.course.look_every_s,
        )
        command = (sys.executable, "-m", "tests.soak.member", role.to_json())
        with (self._directory / f"{member}.stderr").open("wb") as file:
            popen = subprocess.Popen(
                dying_with_parent.guarded(*command),
                cwd=_CHECKOUT,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                process_group=0,  # Ctrl-C is for the soak, which then ends its members
            )
        self._processes.append(Process(role, popen, Life(member)))
        self.lives.append(self._processes[-1].life)

    def _config(self, member: str) -> dict[str, Any]:
        session = {"session.timeout.ms": 3_000, "heartbeat.interval.ms": 500}
        return self.kafka.client_settings(
            **{
                "group.id": self.group,
                "client.id": member,
                **(session if self._protocol != "consumer" else {}),
                **PROTOCOLS[self._protocol],
            }
        )

    @contextmanager
    def _producing(self) -> Iterator[Callable[[int], None]]:
        """What makes so many messages be there in all; each is acknowledged at the end."""
        producer = Producer(self.kafka.client_settings(**{"enable.idempotence": True}))

        def reported(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._refused.append(error)
                return
            number, offset = message.partition() or 0, message.offset() or 0
            self._sent[number] = max(self._sent[number], offset + 1)
            self._witness.appended((self.topic, number), [offset])
            if self.retries is None:
                self.keys[Place(self.topic, number, offset)] = message.key()
            if message.value() == POISON:
                self._poisoned.add((number, offset))

        def produce_up_to(wanted: int) -> None:
            while self.status.produced < wanted:
                at, self.status.produced = self.status.produced, self.status.produced + 1
                value = b"%d" % at if (at + 1) % self.course.poison_every else POISON
                # Not in turn: the partitions' poison would always be in the same one.
                number = self._rng.randrange(PARTITIONS)
                key = b"%d" % self._rng.randrange(KEYS)
                producer.produce(self.topic, value, key, number, on_delivery=reported)
            producer.poll(_TICK_S)

        yield produce_up_to
        left = producer.flush(PATIENCE_S)
        assert not left, f"{left} messages are not acknowledged"
        assert not self._refused, f"{len(self._refused)} messages refused: {self._refused[0]}"

    def _look(self) -> None:
        for process in self._processes:
            code = process.popen.poll()
            assert code is None, f"{process.role.member} ended with {code}\n{self._errors()}"
            seen = gauge(process.popen.pid, _now_s())
            if seen is not None:
                process.life.gauges.append(seen)
        last = [process.life.gauges[-1:] for process in self._processes]
        self.status.resident_bytes = [seen.resident_bytes for (seen,) in filter(None, last)]
        self._listen()

    def _listen(self) -> None:
        """What they have written since the last time."""
        for process in [*self._dead, *self._processes]:
            for entry in _written_since(process):
                match entry:
                    case AttemptFinished(outcome="done"):
                        self.status.counts["handled"] += 1
                    case EventEmitted(event=events.CircuitOpened()):
                        self.status.counts["openings"] += 1
                        process.life.openings += 1
                    case EventEmitted(event=event):
                        self.status.counts[type(event).__name__] += 1

    def _is_all_committed(self) -> bool:
        """In the order of the steps: what is committed of one is in the next by then."""
        self._look()
        try:
            return self._is_committed(self.group, self.topic, self._sent) and all(
                self._is_committed(retry_group(self.group), topic, self.kafka.end_offsets(topic))
                for topic in self._retry_topics
            )
        except KafkaException:
            # A coordinator that has much to do may leave a question unanswered: it is asked again.
            self.status.counts["unanswered questions"] += 1
            return False

    def _is_committed(self, group: str, topic: str, ends: Mapping[int, int]) -> bool:
        offsets = self.kafka.committed(group, topic)
        self.committed |= {(topic, number): offset for number, offset in offsets.items()}
        return all(offsets.get(number, 0) == end for number, end in ends.items())

    def _errors(self) -> str:
        everybody = [*self._dead, *self._processes]
        files = [self._directory / f"{process.role.member}.stderr" for process in everybody]
        return "\n".join(file.read_text(errors="replace")[-2000:] for file in files)


def _now_s() -> float:
    return SystemClock().now_s()


def _written_since(process: Process) -> list[Entry]:
    path = Path(process.role.testimony)
    if not path.exists():
        return []
    with path.open("rb") as file:
        file.seek(process.read_bytes)
        entries = read_new(file)
        process.read_bytes = file.tell()
    return entries


def _looks(path: Path) -> list[Look]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [Look(**json.loads(line)) for line in lines]
