"""A small world, and what must hold after each step in it."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import permutations
from typing import Literal, TypeAlias, cast

from linear_retry.consumer.assembly import Parts
from linear_retry.consumer.lanes.workers import Workers
from linear_retry.consumer.settings.by_key import ByKey
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import partition_of
from linear_retry.scope import AnyScope, Partition, Scope
from linear_retry.testing import (
    BoundedState,
    Guarantee,
    NothingLost,
    StateSize,
    all_guarantees,
)
from tests.consumer.group import GROUP, Dependency, FakeGroup, OutageError, PoisonError, Protocol
from tests.fake.cluster import FakeKafka
from tests.fake.fetching import Fetching
from tests.fake.membership import Membership
from tests.fake.workers import SteppedWorkers
from tests.testing.nothing_late import NothingLate
from tests.torture.exhaustive.ways import Verb

FAULTS = {"exception": 3, "leak": 1, "letter": 1, "late": 1, "stall": 1, "slow": 1}
"""How often each kind of fault strikes on one way, at most."""

FINISHED_WITHIN_S = 30.0
"""So long after the last fault everything is done and committed, at the latest."""
_LATE_S = 0.02
_AT_ONCE = 3
"""Workers: one is always free, so no turn waits for another."""

Failure: TypeAlias = Literal["transient", "permanent"]
Unit: TypeAlias = Partition | bytes
"""What an attempt is about: a partition, or a key where that is the unit of order."""


class InjectedError(Exception):
    """What a poll raises, where a step says so."""


class BrokenError(AssertionError):
    """A guarantee does not hold."""


class Armed(Dependency):
    """It takes everything, but for the next call about a unit where a step has said so."""

    def __init__(self) -> None:
        super().__init__()
        self.failing: dict[Unit, Failure] = {}

    def __call__(self, message: Message) -> None:
        key = message.key()
        unit = partition_of(message) if key not in self.failing else key
        match self.failing.pop(unit, None):
            case "transient":
                raise OutageError
            case "permanent":
                raise PoisonError


@dataclass(frozen=True, slots=True)
class Shape:
    """What does not change in a small world. `messages`: so many are in each of its partitions.

    `keys`: of those of the first partition, where the key is the unit of order.
    """

    scope: AnyScope
    protocol: Protocol
    messages: tuple[tuple[Partition, int], ...]
    delays_s: tuple[float, ...]
    verbs: tuple[Verb, ...]
    keys: tuple[bytes, ...] = ()
    by_key: ByKey | None = None
    on_exhausted: Literal["dead-letter", "block"] = "dead-letter"

    @property
    def partitions(self) -> tuple[Partition, ...]:
        return tuple(partition for partition, _ in self.messages)

    @property
    def namings(self) -> list[tuple[Partition, ...]]:
        """The orders of its partitions that differ in nothing but names; the first is its own."""
        orders = permutations(range(len(self.messages)))
        renamed = [[self.messages[place] for place in order] for order in orders]
        return [tuple(key for key, _ in each) for each in renamed if self._only_renames(each)]

    def _only_renames(self, others: list[tuple[Partition, int]]) -> bool:
        """Whether `others` are its own under other names: of partitions, and of whole topics."""
        topics: dict[str, str] = {}
        for (own, count), (other, other_count) in zip(self.messages, others, strict=True):
            if count != other_count or topics.setdefault(own[0], other[0]) != other[0]:
                return False
        return len(topics) == len({*topics.values()})

    def __str__(self) -> str:
        counts = ", ".join(f"{count} in {topic}[{n}]" for (topic, n), count in self.messages)
        delays = ", ".join(f"{delay_s:g} s" for delay_s in self.delays_s)
        keys = "" if self.by_key is None else f"; {self.keys}, {self.by_key}, {self.on_exhausted}"
        return f"scope {self.scope}, {self.protocol}; messages: {counts}; delays: {delays}{keys}"


class World:
    """One member of a group, on the fake Kafka, and what is known of what it has done.

    `left` are the faults that may still strike, and `arming` whether one was set since the last
    poll. `turns` of the loop were made, and the guarantees were `fed` so many entries of the log;
    `seen_within` is what an `Eye` has seen since. In which order a poll finds the partitions is
    librdkafka's business, so whoever moves the world says it, and nothing is left to chance: for
    that it reaches into the fake.
    """

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.partitions = shape.partitions
        self.group = FakeGroup(
            protocol=shape.protocol,
            topics=dict.fromkeys(topic for topic, _ in self.partitions),
            partitions=max(number for _, number in self.partitions) + 1,
            strategy=shape.delays_s,
            scope=shape.by_key or shape.scope,
            concurrency=_AT_ONCE if shape.keys else 1,
            on_exhausted=shape.on_exhausted,
            # The times in the notes would make each state another one; `schedules` has the notes.
            remember_failures=False,
        )
        self.armed = Armed()
        self.group.dependency = self.armed
        for partition, count in shape.messages:
            if shape.keys:
                self.group.produce_keys(partition, shape.keys)
            else:
                self.group.produce(partition, count)
        # The group has been here before: where a new one begins is another layer's business.
        self.committed = self.fake.group(GROUP)
        self.committed.update(dict.fromkeys(self.partitions, 0))
        self.member = self.group.join()
        self.units: tuple[Unit, ...] = tuple(dict.fromkeys(shape.keys)) or self.partitions
        self.workers = SteppedWorkers(_AT_ONCE, self.fake.clock)
        self.member.workers = self.workers
        if self.parts.lanes is not None:
            self.parts.lanes._workers = cast(Workers, self.workers)
        # No log is replaced in a small world: what asks for it would only multiply the states.
        house, replaced_logs = self.parts.housekeeping, self.parts.replaced_logs
        house._chores = [each for each in house._chores if each[0] is not replaced_logs]
        self.left = dict(FAULTS)
        self.arming = False
        # What happens can break them. Whether all gets done is asked at the end.
        promised = self.promised(NothingLate(_LATE_S))
        self.guarantees = [one for one in promised if not isinstance(one, NothingLost)]
        self.fed = 0
        self.turns = 0
        self.seen_within: dict[object, bytes] = {}
        self._committed_before = dict(self.committed)
        self._may_commit: set[Partition] = set()
        self.member.turn()  # what it asks the brokers at the start is answered
        self.look()

    @property
    def fake(self) -> FakeKafka:
        return self.group.fake

    @property
    def fetching(self) -> Fetching:
        return self.member.consumer._fetching

    @property
    def membership(self) -> Membership:
        return self.member.consumer.membership

    @property
    def parts(self) -> Parts:
        return self.member.parts

    @property
    def now_s(self) -> float:
        return self.fake.clock.now_s()

    def turn(self, order: tuple[Partition, ...]) -> None:
        """One turn of the loop, whose poll finds the partitions in this order."""
        assigned, self.arming = self.fetching.assigned, False
        found = assigned.copy()
        assigned.clear()
        assigned.update((key, found[key]) for key in order if key in found)
        self.fetching._turn = 0
        self.turns += 1
        self.seen_within.clear()
        for change in self.membership.changes:
            change.partitions = tuple(key for key in order if key in change.partitions)
        with suppress(InjectedError):
            self.member.turn()

    @property
    def in_vain(self) -> bool:
        """A fault is still to strike though a poll has passed: it might as well be set later."""
        left = self.armed.failing or self.workers.slow or self.fake.faults.left()
        return not self.arming and bool(left)

    def finishing(self) -> Iterator[None]:
        """The faults end, the member gets everything; then turn by turn until all is committed.

        Raises `BrokenError` where that takes too long.
        """
        until_s = self.now_s + FINISHED_WITHIN_S
        self._calm()
        yield
        while not self.group.all_done():
            if self.now_s >= until_s:
                raise BrokenError(f"not all is done after {FINISHED_WITHIN_S:g} s: {self}")
            self.group.retry_blocked()
            self.turn(self.partitions)
            self.look()
            yield

    def _calm(self) -> None:
        self.armed.failing.clear()
        self.workers.slow.clear()
        self.workers.kept.clear()
        self.fake.faults.clear()
        self.left.clear()
        self.arming = False
        if set(self.membership.target) != set(self.partitions):
            self.fake.assign(self.member.consumer, self.partitions)
        self.look()

    def look(self) -> None:
        """To be called after each step. Raises `BrokenError`."""
        self._look_at_commits()
        witness = self.group.witness
        if self.committed != self._committed_before:
            witness.committed(self.committed)
            self._committed_before = dict(self.committed)
        log = witness.entries
        news, self.fed = log[self.fed :], len(log)
        if not news:
            return
        kept = self._kept()
        for guarantee in self.guarantees:
            for entry in [*news, kept] if isinstance(guarantee, BoundedState) else news:
                guarantee.feed(entry)
        if any(guarantee._broken for guarantee in self.guarantees):
            found = [violation for one in self.guarantees for violation in one.violations(log)]
            raise BrokenError("\n".join(map(str, found)))

    def _kept(self) -> StateSize:
        """Not for the log. A circuit may outlive what it held, until `retry_at`."""
        if self.shape.keys:
            most = len(self.partitions) + len(self.units) + 1  # that over many keys
        else:
            scopes = {Scope.of(self.shape.scope, partition) for partition in self.partitions}
            most = len(self.partitions) + len(scopes)
        return StateSize(self.now_s, self.member.name, self.member.state_size(), most)

    def _look_at_commits(self) -> None:
        """Only of what it owns: from the assignment until it has given it back, or was notified of
        the loss."""
        mine = self._may_commit
        for _, client, call, arguments in self.fake.log:
            if client != self.member.consumer.name:
                continue
            match call:
                case "on_assign":
                    mine |= {*arguments}
                case "on_lost":
                    mine -= {*arguments}
                case "unassign":
                    mine.clear()
                case "incremental_unassign":
                    mine -= {key[:2] for key in arguments[0]}
                case "assign" | "incremental_assign":
                    mine |= {key[:2] for key in arguments[0]}
                case "commit":
                    foreign = {key[:2] for key in arguments[0]} - mine
                    if foreign:
                        raise BrokenError(f"it commits {sorted(foreign)}, which are not its own")
        self.fake.log.clear()

    def promised(self, late: NothingLate) -> list[Guarantee]:
        """All that holds in it. Of keys nothing is `late`: a worker begins when one is free."""
        length, keys = len(self.shape.delays_s), self.group.keys or None
        every = all_guarantees(self.group.visible, strategy_length=length, keys=keys)
        return every if keys else [*every, late]

    def __str__(self) -> str:
        committed = [self.committed.get(key) for key in self.partitions]
        return f"{self.shape}; committed: {committed}"
