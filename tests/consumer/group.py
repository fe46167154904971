"""A group of consumers on the fake Kafka, moved turn by turn."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from typing import Any, Literal, cast

from linear_retry import (
    BatchError,
    DeadLetters,
    Event,
    LinearConsumer,
    RetryAfter,
    RetryTopics,
    Strategy,
)
from linear_retry.consumer.assembly import assemble
from linear_retry.consumer.lanes.lane_loop import LaneLoop
from linear_retry.consumer.lanes.workers import Workers, attempt_work
from linear_retry.consumer.operations.monitor import Monitor
from linear_retry.consumer.ownership.requests import Retry
from linear_retry.consumer.ownership.stop import StopFlag
from linear_retry.consumer.partitions.batches import BatchLimits
from linear_retry.consumer.partitions.commit_notes import OnUnreadableNote
from linear_retry.consumer.partitions.offsets import StartPositions
from linear_retry.consumer.runners.run_handler import Results, attempt_all, attempt_batch
from linear_retry.consumer.settings.by_key import ByKey, order_of
from linear_retry.consumer.settings.checks import GROUP_BREAKER_MAX_S, Strategies, plan
from linear_retry.consumer.settings.consumer_config import Dependencies
from linear_retry.consumer.settings.inbox import InboxPlaces
from linear_retry.consumer.settings.line import WhenExhausted
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import partition_of
from linear_retry.records.control import Command, encode, read_control
from linear_retry.records.topics.names import retry_group
from linear_retry.retry.case import Blocked
from linear_retry.retry.circuits import Circuits
from linear_retry.retry.decision import OnPermanent
from linear_retry.scope import AnyScope, Partition, Place, Scope, ScopeKind
from linear_retry.testing import AttemptStarted, EventLog, broken
from tests.fake.cluster import FakeKafka
from tests.fake.consumer import FakeConsumer
from tests.fake.topic import Headers
from tests.fake.workers import FakeWorkers
from tests.inbox.starts_at import StartsAt
from tests.testing.nothing_late import NothingLate
from tests.testing.nothing_while_paused import NothingWhilePaused
from tests.testing.violations import others_go_on, violations
from tests.testing.within_time import WithinTime

TOPIC = "orders"
OTHER_TOPIC = "refunds"
LETTERS = "orders.dlq"
GROUP = "billing"
START_TIMEOUT_S = 30.0
_ALIVE_WITHIN_S = 45.0
"""The watchdog of a dead partition is patient for 5, 10, 20 s, one after another."""

Protocol = Literal["eager", "cooperative", "consumer"]
PROTOCOL_KEYS: dict[Protocol, dict[str, str]] = {
    "eager": {},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}


class OutageError(Exception):
    """The dependency is down."""


class PoisonError(Exception):
    """This message can never be handled."""


class Dependency:
    """What the handler calls: up or down, for all or for some, and messages it will never take."""

    def __init__(self) -> None:
        self.down = False
        self.down_for: set[Partition] = set()
        self.down_for_keys: set[bytes | None] = set()
        self.asks_s: dict[Partition, float] = {}
        self.refuses: set[tuple[int, int]] = set()
        self.raises_once: list[BaseException] = []
        self.takes_s = 0.0
        self.advance: Callable[[float], None] = lambda _: None
        self._goes_on = False

    def __call__(self, message: Message) -> None:
        self.advance(0.0 if self._goes_on else self.takes_s)
        if self.raises_once:
            raise self.raises_once.pop()
        if (message.partition(), message.offset()) in self.refuses:
            raise PoisonError
        partition = partition_of(message)
        fails = partition in self.down_for or message.key() in self.down_for_keys
        if self.down or fails:
            # How long it asks to be left alone, where it says so.
            raise RetryAfter(self.asks_s[partition]) if partition in self.asks_s else OutageError

    def batch(self, messages: list[Message]) -> None:
        """All of them in the time of one; of every third it says that this one has failed."""
        for index, message in enumerate(messages):
            self._goes_on = index > 0
            try:
                self(message)
            except Exception as error:
                if (message.offset() or 0) % 3 == 0:
                    raise BatchError(index, error) from error
                raise
            finally:
                self._goes_on = False


class Member:
    """One process of the group: the parts of a consumer, without the thread."""

    def __init__(self, group: FakeGroup, name: str, protocol: Protocol) -> None:
        fake = group.fake
        self.handles: list[FakeConsumer] = []

        def made(config: dict[str, Any]) -> FakeConsumer:
            self.handles.append(fake.consumer(config))
            return self.handles[-1]

        dependencies = Dependencies(*(made, fake.producer, fake.admin, fake.clock, lambda: 0.5))
        wanted = plan(
            {"bootstrap.servers": "fake:9092", "group.id": GROUP, **PROTOCOL_KEYS[protocol]}
            | group.config,
            group.reads or group.topics,
            strategy=group.given,
            transient=OutageError,
            dead_letters=group.dead_letters,
            scope=group.scope,
            on_exhausted=group.on_exhausted,
            on_permanent=group.on_permanent,
            start_timeout_s=START_TIMEOUT_S,
            close_timeout_s=10,
            dependencies=dependencies,
            concurrency=group.concurrency,
            remember_failures=group.remember_failures,
            on_unreadable_note=group.on_unreadable_note,
            control=None if group.group_breaker_max_s is None else "control",
            group_breaker=group.group_breaker_max_s is not None,
            group_breaker_max_s=group.group_breaker_max_s or GROUP_BREAKER_MAX_S,
        )
        wanted = replace(wanted, control=None)  # the group carries what they say, without a thread
        self.id = wanted.member
        self.name = name
        self.stop = StopFlag()
        self.circuits: Circuits[Message] = Circuits(name, pauses=wanted.by_key is None)
        listen = group.witness.listener(name)
        self.events: list[Event] = []

        self.monitor = Monitor((self.events.append, listen), fake.clock.utc_ms)
        order = order_of(wanted.by_key, wanted.settings.group_id)
        starts = group.start_positions
        inbox = None if starts is None else cast(InboxPlaces, StartsAt(starts))
        self.parts = assemble(wanted, self.circuits, self.monitor, self.stop, order, inbox)
        self.workers = FakeWorkers(
            group.concurrency, fake.clock, random.Random(name), self._is_killed
        )
        if self.parts.lanes is not None:
            self.parts.lanes._workers = cast(Workers, self.workers)
            self.stop.allow_until(math.inf)
        self.handler = group.witness.handler(name, group.dependency)
        self.batch_handler = group.witness.batch_handler(name, group.dependency.batch)
        self._batches = group.batches
        self._witness = group.witness
        self._rests_since_s = fake.clock.now_s()
        self.parts.start()

    @property
    def consumer(self) -> FakeConsumer:
        """Its newest handle in the group: a client that sees no broker any more is replaced."""
        return [each for each in self.handles if each.membership.callbacks][-1]

    def turn(self) -> None:
        """One turn of the loop."""
        now_s = self.parts.clock.now_s
        self._witness.idle(self.name, self._rests_since_s)
        try:
            if self.parts.lanes is not None:
                self.turn_side_by_side(self.parts.lanes)
                return
            with closing(self.parts.loop.turn(self._batches)) as turn:
                for work in turn:
                    if self._batches is None:
                        attempt_all(work, self.handler, self.stop, now_s, Results())
                    else:
                        attempt_batch(work, self.batch_handler, Results())
        finally:
            self._rests_since_s = now_s()

    def turn_side_by_side(self, lanes: LaneLoop) -> None:
        """One turn of the loop of workers, whose errors end it as those of `run`."""
        now_s, results = self.parts.clock.now_s, Results()
        try:
            lanes.turn(lambda work: attempt_work(work, self.handler, now_s, results))
        except BaseException as error:
            if not self._is_killed():
                lanes.abandon(waits=not isinstance(error, KeyboardInterrupt))
            raise

    def leave(self) -> None:
        """A clean end."""
        if self.parts.lanes is not None:
            self.parts.lanes.finish()
        self.parts.close(commit=True, timeout_s=10)

    def _is_killed(self) -> bool:
        return False

    def state_size(self) -> int:
        """Entries kept per partition, circuit or message, all owners together."""
        return len(self.parts.assignment.partitions) + len(list(self.parts.circuits))


class FakeGroup:
    """Topic, dead-letter topic, dependency, members; and what they did, watched."""

    def __init__(
        self,
        *,
        protocol: Protocol = "eager",
        topics: Iterable[str] = (TOPIC,),
        partitions: int = 3,
        strategy: Iterable[Any] | Strategy = (1, 2, 5),
        given: Strategies | None = None,
        config: dict[str, Any] | None = None,
        scope: AnyScope | ByKey = "consumer",
        letter_limit: int | None = None,
        transactional: bool = False,
        on_exhausted: WhenExhausted = "dead-letter",
        on_permanent: OnPermanent = "dead-letter",
        reads: RetryTopics | None = None,
        fake: FakeKafka | None = None,
        start_positions: StartPositions | None = None,
        batches: BatchLimits | None = None,
        concurrency: int = 1,
        remember_failures: bool = True,
        on_unreadable_note: OnUnreadableNote = "refuse",
        group_breaker_max_s: float | None = None,
    ) -> None:
        """Each of `topics` has as many `partitions`. `reads`: it is a retry line, of these.

        `given` is what members get in place of `strategy`, of which the guarantees know.
        """
        self.fake = fake or FakeKafka()
        self.reads = reads
        self.start_positions = start_positions
        self.batches = batches
        self.concurrency = concurrency
        self.remember_failures = remember_failures
        self.on_unreadable_note: OnUnreadableNote = on_unreadable_note
        self.group_breaker_max_s = group_breaker_max_s
        self.said: list[Command] = []
        """The control topic: what members have announced, in its order."""
        self.is_control_down = False
        self.is_heard: Callable[[Command], bool] = lambda _: True
        self.group_id = GROUP if reads is None else retry_group(GROUP)
        self.topics = list(topics if reads is None else reads.topics)
        stamps = {"message.timestamp.type": "CreateTime" if reads is None else "LogAppendTime"}
        for topic in self.topics:
            self.fake.create_topic(topic, partitions, stamps)
        if LETTERS not in self.fake.topics:
            self.fake.create_topic(LETTERS, partitions)
        self.strategy = strategy if isinstance(strategy, Strategy) else Strategy(list(strategy))
        self.given: Strategies = self.strategy if given is None else given
        self.protocol: Protocol = protocol
        self.config = config or {}
        self.scope: AnyScope | ByKey = scope
        self.on_exhausted: WhenExhausted = on_exhausted
        self.on_permanent: OnPermanent = on_permanent
        self.dead_letters = DeadLetters(LETTERS, limit=letter_limit, transactional=transactional)
        self.witness = EventLog(self.fake.clock.now_s, utc_ms=self.fake.clock.utc_ms)
        self.dependency = Dependency()
        self.dependency.advance = self.fake.clock.advance
        self.members: list[Member] = []
        self.visible: dict[Partition, list[int]] = {
            (topic, number): [] for topic in self.topics for number in range(partitions)
        }
        self.keys: dict[Place, bytes | None] = {}
        """Of the messages of which a key is the unit of order."""
        self._born = 0

    @property
    def partitions(self) -> list[Partition]:
        return list(self.visible)

    @property
    def pausing(self) -> ScopeKind:
        """What an open circuit pauses."""
        if isinstance(self.scope, ByKey) or self.scope == "key":
            raise AssertionError("a key's circuit pauses nothing")
        return self.scope

    def join(self) -> Member:
        """A new member. It has nothing until `share` gives it something."""
        self._born += 1
        member = self.member(f"{'member' if self.reads is None else 'retry'}-{self._born}")
        self.members.append(member)
        for command in self.said:
            member.parts.commands.post(command)
        return member

    def member(self, name: str) -> Member:
        """A process that is not in the list yet."""
        return Member(self, name, self.protocol)

    def crash(self, member: Member) -> None:
        """SIGKILL: no close, no commit; the group finds out."""
        self.members.remove(member)
        self.fake.lose(member.consumer)
        member.consumer.closed = True
        self.witness.crashed(member.name)

    def leave(self, member: Member) -> None:
        """A clean end."""
        self.members.remove(member)
        member.leave()
        self.carry(member)

    def share(self, owners: Iterable[int], *, after: int = 0) -> None:
        """Partition k goes to member `owners[k]`."""
        shares: list[list[Partition]] = [[] for _ in self.members]
        for partition, owner in zip(self.partitions, owners, strict=True):
            shares[owner % len(self.members)].append(partition)
        for member, share in zip(self.members, shares, strict=True):
            self.fake.assign(member.consumer, share, after=after)

    def produce_keys(
        self, partition: int | Partition, keys: Iterable[bytes | None], *, gap: int = 0
    ) -> list[Place]:
        """One message for each of these keys. Returns where they are."""
        place = (self.topics[0], partition) if isinstance(partition, int) else partition
        made = list[Place]()
        for key in keys:
            offset = self.fake.append(*place, b"value", key, None, gap=gap)
            self.visible[place].append(offset)
            made.append(Place(*place, offset))
            self.keys[made[-1]] = key
            self.witness.appended(place, [offset])
        return made

    def produce(self, partition: int | Partition, count: int = 1, *, gap: int = 0) -> None:
        """So many messages more. A number is a partition of the first topic."""
        key = (self.topics[0], partition) if isinstance(partition, int) else partition
        for _ in range(count):
            end = self.fake.topics[key[0]].partitions[key[1]].end
            headers = self.headers(key, end + gap)
            offset = self.fake.append(*key, b"value", b"key", headers, gap=gap)
            self.visible[key].append(offset)
            self.witness.appended(key, [offset])

    def headers(self, key: Partition, offset: int) -> Headers | None:
        """Those of the message that is produced at this place; for a subclass."""
        return None

    def turn(self, times: int = 1) -> None:
        """Every member, one after another."""
        for _ in range(times):
            for member in list(self.members):
                member.turn()
                self.carry(member)

    def carry(self, member: Member) -> None:
        """Lets all members read what this one has announced."""
        for order in () if self.is_control_down else member.parts.commands.orders():
            command = read_control(encode(order))
            if isinstance(command, Command) and self.is_heard(command):
                self.say(command)

    def say(self, command: Command) -> None:
        """Writes it to the control topic, which all read."""
        self.said.append(command)
        for each in self.members:
            each.parts.commands.post(command)

    def retry_blocked(self) -> None:
        """An operator retries all that waits for one."""
        for member in self.members:
            for scope, circuit in member.circuits:
                if isinstance(circuit.case, Blocked):
                    member.parts.requests.submit(Retry(scope))

    def all_done(self) -> bool:
        """Whether everything that is visible has been committed."""
        committed = self.fake.group(self.group_id)
        return all(
            not found or committed.get(partition, 0) > found[-1]
            for partition, found in self.visible.items()
        )

    def attempted(self) -> list[int]:
        """The offset of each attempt, of whatever partition, in their order."""
        entries = [each for each in self.witness.entries if isinstance(each, AttemptStarted)]
        return [each.place.offset for each in entries]

    def finish(
        self, within_s: float = 120.0, before_turn: Callable[[], None] = lambda: None
    ) -> None:
        """The last fault is past: turn until all is done and committed, in bounded time."""
        give_up_at_s = self.fake.clock.now_s() + within_s
        while not self.all_done() and self.fake.clock.now_s() < give_up_at_s:
            before_turn()
            self.turn()

    def standing_still(self, failing: Iterable[Partition]) -> list[str]:
        """After a stretch where only the dependency failed, for these: what stands for nothing."""
        scopes = [Scope.of(self.pausing, partition) for partition in failing]
        others = {
            partition: found
            for partition, found in self.visible.items()
            if not any(scope.covers(partition) for scope in scopes)
        }
        return list(others_go_on(self.witness.entries, others, self.keys))

    def violations(self, *, finished: bool = True) -> list[str]:
        found = violations(
            self.witness.entries,
            self.visible,
            committed=self.fake.group(self.group_id),
            strategy_length=len(self.strategy),
            max_elapsed=self.strategy.max_elapsed_s is not None,
            letter_limit=self.dead_letters.limit,
            alive_within_s=_ALIVE_WITHIN_S,
            asked_at_s=self.fake.clock.now_s(),
            finished=finished,
            batches=self.batches is not None,
            retries=self.on_exhausted if isinstance(self.on_exhausted, RetryTopics) else self.reads,
            retry_strategy_length=len(self.strategy),
            keys=self.keys or None,
        )
        # While a wide circuit is open, time does not count for those that are no probes of it.
        limit_s = None if self.keys else self.strategy.max_elapsed_s
        # Workers that are tests' own begin a probe some time after it is handed to them.
        prompt = [] if self.concurrency > 1 or self.keys else [NothingLate()]
        timed = [NothingWhilePaused(), *prompt, *([] if limit_s is None else [WithinTime(limit_s)])]
        late = broken(self.witness.entries, timed)
        return [*found, *map(str, late)]


def consumer_on(fake: FakeKafka, **options: Any) -> LinearConsumer:
    """The consumer as a program holds it, on the fake: for `run`, not turn by turn."""
    topics = options.pop("topics", [TOPIC])
    choices: dict[str, Any] = {
        "strategy": Strategy([1, 5]),
        "transient": OutageError,
        "dead_letters": LETTERS,
    }
    return LinearConsumer(
        {"bootstrap.servers": "fake:9092", "group.id": GROUP},
        topics,
        **choices | options,
        _dependencies=Dependencies(
            *(fake.consumer, fake.producer, fake.admin, fake.clock, lambda: 0.0)
        ),
    )
