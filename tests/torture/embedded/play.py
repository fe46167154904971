"""A play: what happens to a group of real clients, and to its brokers."""

import random
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from itertools import count

from confluent_kafka import KafkaError, Producer

from linear_retry import DeadLetters, events
from linear_retry.consumer.settings.consumer_config import Dependencies
from linear_retry.errors import BrokerError
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import key_of, place_of
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from linear_retry.retry.clock import SystemClock
from linear_retry.scope import AnyScope
from linear_retry.testing import EventEmitted
from tests.kafka_operations import wait_until
from tests.scenarios.handlers import OutageError, PoisonError
from tests.scenarios.scene import Member, Scene
from tests.testing.violations import done_places
from tests.torture.embedded.errors import EVERYONES_ERRORS, MEMBERS_ERRORS
from tests.torture.embedded.met import ErrorsMet
from tests.torture.embedded.mortal import KilledError, Mortal
from tests.torture.embedded.standing import reached, state
from tests.torture.layer import Counts

TOPIC, LETTERS = "orders", "orders.dlq"
PARTITIONS = 6
BROKERS = 3
_KEYS = 20
_AT_ONCE = 4
_STEPS = 12
_FEWEST, _MOST = 1, 4
_LONGEST_GAP_S = 0.5
_DOWN = 0.4
"""How often the dependency is down in a step."""
_SETTLED_S = 30.0


class Dependency:
    """Up, or down for some time; and some messages that it will never take."""

    def __init__(self, rng: random.Random) -> None:
        self.down = False
        self._rng = rng
        self._working = threading.Event()

    def __call__(self, message: Message) -> None:
        self._working.wait(self._rng.expovariate(500))
        if message.value() == b"poison":
            raise PoisonError
        if self.down:
            raise OutageError


class Play:
    """What happens to one group and its brokers, drawn from `rng`."""

    def __init__(
        self, kafka: EmbeddedKafka, met: ErrorsMet, scene: Scene, scope: AnyScope, seed: int
    ) -> None:
        self.counts: Counts = Counter()
        self._kafka, self._met, self._scene, self._scope = kafka, met, scene, scope
        self._rng = random.Random(seed)
        # A generator of its own: members are threads, and what is drawn must be the same each time.
        self.dependency = Dependency(random.Random(seed))
        self._lives: dict[str, tuple[Member, Mortal]] = {}
        self._ended: list[tuple[str, Member, Mortal]] = []
        self._lasting: list[tuple[int, ExitStack]] = []
        self._numbers = count(1)
        self._pacing = threading.Event()
        self._reported: list[tuple[float, str]] = []
        self._now_s = SystemClock().now_s
        settings = scene.kafka.client_settings(**{"linger.ms": 5, "message.timeout.ms": 60_000})
        self._producer = Producer(settings)
        self._faults = ExitStack()

    def join(self) -> None:
        name, life = f"member-{next(self._numbers)}", Mortal()
        options = {
            "scope": self._scope,
            "concurrency": _AT_ONCE if self._scope == "key" else 1,
            "dead_letters": DeadLetters(LETTERS, config={"log_level": 0}, limit=None),
            "_dependencies": Dependencies(consumer=life.consumer),
        }
        self._lives[name] = self._scene.join(name, self.dependency, **options), life
        self.counts["joined"] += 1

    def leave(self) -> None:
        name = self._one()
        self._strike("left", name, [name])
        self._lives[name][0].consumer.stop()
        self._is_gone(name)

    def kill(self) -> None:
        name = self._one()
        self._strike("killed", name, [name])
        self._lives[name][1].kill()
        self._is_gone(name)

    def broker_down(self) -> None:
        """Sometimes all of them."""
        broker = self._rng.choice([1, 2, 3, 1, 2, 3, None])
        self._lasts("broker down", self._kafka.down(broker), broker)

    def slow(self) -> None:
        broker = self._rng.choice([1, 2, 3, None])
        rtt_ms = self._rng.randrange(50, 400)
        self._lasts("slow", self._kafka.slow(rtt_ms, broker), f"{broker} by {rtt_ms} ms")

    def leader(self) -> None:
        partition, broker = self._rng.randrange(PARTITIONS), self._rng.randint(1, BROKERS)
        self._strike("leader moved", f"{partition} to {broker}")
        self._kafka.move_leader(TOPIC, partition, broker)

    def letters_leader(self) -> None:
        partition, broker = self._rng.randrange(PARTITIONS), self._rng.randint(1, BROKERS)
        self._strike("leader of the letters moved", f"{partition} to {broker}")
        self._kafka.move_leader(LETTERS, partition, broker)

    def coordinator(self) -> None:
        broker = self._rng.randint(1, BROKERS)
        self._strike("coordinator moved", broker)
        self._kafka.move_group_coordinator(self._scene.group, broker)

    def errors(self) -> None:
        """Of one kind: a few, or as long as it lasts."""
        protocol = self._scene.config("nobody").get("group.protocol", "classic")
        kinds = {**MEMBERS_ERRORS[protocol], **EVERYONES_ERRORS}
        kind = self._rng.choice(list(kinds))
        error = self._rng.choice(kinds[kind])
        if self._rng.random() < 0.3:
            self._lasts("errors ready", self._met.failing(kind, error), f"{kind}: {error}")
        else:
            times = self._rng.randint(1, 5)
            self._strike("errors ready", f"{kind}: {error}, {times} times")
            self._met.fail(kind, error, times)

    def retention(self) -> None:
        """The held message is gone, or whatever is next, and some after it."""
        partition = self._rng.randrange(PARTITIONS)
        done = [place[2] for place in done_places(self._scene.log()) if place[1] == partition]
        before = max(done, default=-1) + 1 + self._rng.randint(1, 5)
        try:
            self._kafka.delete_records(TOPIC, partition, before)
        except BrokerError:  # so many are not there
            return
        self._strike("records deleted", f"{partition} before {before}")

    def produce(self) -> None:
        for _ in range(self._rng.randrange(20, 100)):
            value = b"poison" if self._rng.random() < 0.01 else b"work"
            partition, key = self._rng.randrange(PARTITIONS), b"%d" % self._rng.randrange(_KEYS)
            self._producer.produce(
                TOPIC, value, key, partition=partition, on_delivery=self._is_there
            )
        self._producer.poll(0)

    def run(self) -> None:
        self.produce()
        for _ in range(self._rng.randint(1, 3)):
            self.join()
        # Until the last is over it is nobody's fault where something stands still.
        self._faults.enter_context(self._scene.disturbing("faults"))
        for number in range(_STEPS):
            self._end_what_lasted(number)
            self.dependency.down = self._rng.random() < _DOWN
            self.produce()
            self._pacing.wait(self._rng.random() * _LONGEST_GAP_S)
            self._step(number)
        self.repair()
        self.settle()

    def repair(self) -> None:
        """The last fault is over."""
        for _, stack in self._lasting:
            stack.close()
        self._lasting.clear()
        self._met.clear()
        self.dependency.down = False
        self._faults.close()

    def settle(self) -> None:
        """Everything is done and committed soon."""
        self._report("the last fault is over")
        if not self._lives:
            self.join()
        left = self._producer.flush(_SETTLED_S)
        assert left == 0, f"{left} of the play's own messages were not acknowledged"
        visible = self._scene.visible()
        wanted = {(*place, offset) for place, found in visible.items() for offset in found}
        ends = {place: found[-1] + 1 for place, found in visible.items()}
        wait_until(
            lambda: (
                wanted <= done_places(self._scene.log())
                and all(self._scene.committed().get(p, 0) >= end for p, end in ends.items())
                and all(at >= ends.get(p, 0) for p, at in reached(self._scene.log()))
            ),
            "all is done and committed after the last fault",
            detail=self.story,
        )
        self._report("all is done and committed")

    def end(self) -> None:
        """Everybody leaves; whoever was not killed must have ended well."""
        for member, _ in self._lives.values():
            member.consumer.stop()
        everyone = [(name, *both) for name, both in self._lives.items()] + self._ended
        for name, member, life in everyone:
            try:
                member.result()
            except KilledError:
                assert life.killed
            except Exception as error:
                raise AssertionError(f"{name} ended with {error!r}") from error

    def story(self) -> str:
        """What was done to them, what they said, and what they have not done."""
        log = self._scene.log()
        emitted = [
            (entry.at_s, f"{entry.member}: {entry.event}")
            for entry in log
            if isinstance(entry, EventEmitted) and not isinstance(entry.event, events.DeadLettered)
        ]
        lines = [f"{at_s:.3f} {what}" for at_s, what in sorted(self._reported + emitted)]
        done, committed = done_places(log), self._scene.committed()
        for place, found in self._scene.visible().items():
            undone = [offset for offset in found if (*place, offset) not in done]
            lines.append(
                f"{place}: {found[:1]} to {found[-1:]}, committed {committed.get(place)}, "
                f"{len(undone)} undone: {undone[:3]}"
            )
        return "\n".join(lines)

    def _step(self, number: int) -> None:
        self._now = number
        possible: list[Callable[[], None]] = [
            *(self.broker_down, self.slow, self.leader, self.coordinator, self.letters_leader),
            *(self.errors, self.errors, self.errors, self.retention),
        ]
        possible += [self.join] * 2 if len(self._lives) < _MOST else []
        possible += [self.leave, self.kill] if len(self._lives) > _FEWEST else []
        self._rng.choice(possible)()

    def _one(self) -> str:
        return self._rng.choice(sorted(self._lives))

    def _is_gone(self, name: str) -> None:
        self._ended.append((name, *self._lives.pop(name)))

    def _lasts(self, what: str, fault: AbstractContextManager[None], detail: object) -> None:
        self._strike(what, detail)
        stack = ExitStack()
        stack.enter_context(fault)
        self._lasting.append((self._now + self._rng.randint(1, 4), stack))

    def _end_what_lasted(self, now: int) -> None:
        for until, stack in list(self._lasting):
            if until <= now:
                self._lasting.remove((until, stack))
                stack.close()

    def _strike(self, what: str, detail: object, names: list[str] | None = None) -> None:
        """Told, and counted with the state of each member that it strikes."""
        self._report(f"{what} ({detail})")
        log = self._scene.log()
        for name in names or self._lives:
            self.counts[f"{what} while {state(log, name, self._lives[name][0])}"] += 1
        if not names:
            closing = [member for _, member, _ in self._ended if not member.ended.done()]
            self.counts[f"{what} while closing"] += len(closing)

    def _is_there(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            place = place_of(message)
            self._scene.appended(place.partition, place.offset, key_of(message))

    def _report(self, what: str) -> None:
        self._reported.append((self._now_s(), what))
