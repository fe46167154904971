"""A live line and its retry line on one fake Kafka, moved turn by turn, and all attempts noted."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from linear_retry import RetryTopics
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import partition_of, read
from linear_retry.records import lineage
from linear_retry.records.dead_letter import DeadLetter, parse
from linear_retry.records.lineage import Line, Lineage
from linear_retry.scope import Partition, ScopeKind
from tests.consumer.group import GROUP, LETTERS, TOPIC, Dependency, FakeGroup, Member, PoisonError
from tests.fake.clock import VirtualClock
from tests.fake.cluster import FakeKafka
from tests.testing.violations import violations

PREFIX = "orders.billing.retry"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call of the handler, on either line. `waited_s` is None in the live one.

    `waited_s` is the time since the broker wrote the record, by the clock of waits.
    """

    at_s: float
    place: tuple[str, int, int]
    who: Lineage
    waited_s: float | None

    @property
    def is_garbage(self) -> bool:
        """Whether it came from a retry topic, and by no hop."""
        return self.waited_s is not None and self.who.hop is None

    @property
    def origin(self) -> tuple[str, int, int]:
        return self.who.destination, self.who.original_partition, self.who.original_offset


@dataclass
class NotingDependency(Dependency):
    """A dependency of both lines, which notes who calls it."""

    clock: VirtualClock
    line: Line
    fails: Counter[tuple[int, int]] = field(default_factory=Counter)
    """So often fails each message of the source, by its partition and offset."""

    def __post_init__(self) -> None:
        super().__init__()
        self.attempts: list[Attempt] = []
        self.handled: list[Attempt] = []
        self.poison: set[tuple[int, int]] = set()
        self.written_s: dict[tuple[str, int, int], float] = {}

    def __call__(self, message: Message) -> None:
        record = read(message)
        place = record.topic, record.partition, record.offset
        who = lineage.lineage_of(record, self.line)
        written_s = self.written_s.get(place)
        waited_s = None if written_s is None else self.clock.now_s() - written_s
        attempt = Attempt(self.clock.now_s(), place, who, waited_s)
        self.attempts.append(attempt)
        if attempt.origin[1:] in self.poison:
            raise PoisonError
        super().__call__(message)
        if self.fails[attempt.origin[1:]]:
            self.fails[attempt.origin[1:]] -= 1
            self.down_for.add(partition_of(message))
            try:
                super().__call__(message)
            finally:
                self.down_for.discard(partition_of(message))
        self.handled.append(attempt)


class TwoLines:
    """Both lines; `retries` is where messages wait between them."""

    def __init__(
        self,
        delays: Sequence[Any] = ("5s", "5s", "30s"),
        *,
        retries: RetryTopics | None = None,
        partitions: int = 2,
        live: Sequence[Any] = (),
        retry: Sequence[Any] = (),
        scope: ScopeKind = "consumer",
        limit: int | None = None,
        hold: float | None = None,
        transactional: bool = False,
        fake: FakeKafka | None = None,
    ) -> None:
        """`live` and `retry` are the blocking strategies of the lines."""
        self.fake = fake or FakeKafka()
        self.clock = self.fake.clock
        self.retries = retries or RetryTopics(PREFIX, strategy=delays, limit=limit, hold=hold)
        shared: dict[str, Any] = {"partitions": partitions, "fake": self.fake, "scope": scope}
        shared["transactional"] = transactional
        self.retry = FakeGroup(reads=self.retries, strategy=retry, **shared)
        self.live = FakeGroup(on_exhausted=self.retries, strategy=live, **shared)
        self.retry.witness = self.live.witness  # one log: many things happen at one moment
        line = Line(GROUP, self.retries.delay_ms)
        self.dependency = NotingDependency(self.clock, line)
        self.dependency.advance = self.clock.advance
        self.live.dependency = self.retry.dependency = self.dependency

    def start(self, *, live: int = 1, retry: int = 1) -> None:
        """So many members of each line, which share its partitions out."""
        for group, members in ((self.live, live), (self.retry, retry)):
            for _ in range(members):
                group.join()
            if members:
                group.share(range(len(group.partitions)))

    @property
    def reader(self) -> Member:
        """The first member of the retry line."""
        return self.retry.members[0]

    def put(
        self, topic: str, partition: int = 0, *, headers: Any = None, value: bytes = b""
    ) -> int:
        """A record that no consumer of ours has sent there."""
        return self.fake.append(topic, partition, value, headers=headers)

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self.note_written()
            self.live.turn()
            self.note_written()
            self.retry.turn()

    def run(self, seconds: float) -> None:
        """Turns until so much time has passed."""
        until_s = self.clock.now_s() + seconds
        while self.clock.now_s() < until_s:
            self.turn()

    def attempts(self, topic: str = "") -> list[Attempt]:
        """In the order of time; of one topic, or of all."""
        return [each for each in self.dependency.attempts if topic in ("", each.place[0])]

    def letters(self) -> list[DeadLetter]:
        return list(map(self._parsed, self._records([LETTERS])))

    def waiting(self) -> list[DeadLetter]:
        """Every hop's record that ever was in a retry topic, in the order of topics."""
        hops = (each for each in self._records(self.retries.topics) if each.headers)
        return list(map(self._parsed, hops))

    def returned(self) -> list[DeadLetter]:
        """Every record that was returned to the source."""
        return [self._parsed(each) for each in self._records([TOPIC]) if each.headers]

    def lag(self, group: FakeGroup) -> dict[Partition, int]:
        """The first record of each partition that is not committed, where there is one.

        Or of which it is not decided yet whether it is there: a transaction is open.
        """
        committed = self.fake.group(group.group_id)
        logs = {key: self.fake.topics[key[0]].partitions[key[1]] for key in group.partitions}
        found = {key: log.at_or_after(committed.get(key, 0)) for key, log in logs.items()}
        undone = {key: record.offset for key, record in found.items() if record is not None}
        undecided = {key: log.stable_end for key, log in logs.items() if log.stable_end < log.end}
        return undecided | undone

    def calls(self, name: str, group: FakeGroup | None = None) -> list[Any]:
        """The arguments of these calls by the retry line's clients, or by another line's."""
        members = (group or self.retry).members
        names = {handle.name for member in members for handle in member.handles}
        return [
            given for _, client, call, given in self.fake.log if client in names and call == name
        ]

    def early(self) -> list[str]:
        """What was attempted before its delay had passed."""
        return [
            f"{each.place} after {each.waited_s:.3f} s"
            for each in self.dependency.attempts
            if each.waited_s is not None
            and each.waited_s * 1000 + 1 < (self.retries.delay_ms(each.place[0]) or 0)
        ]

    def violations(
        self, *, finished: bool = True, skew_s: float = 0.0, alive_within_s: float = 10.0
    ) -> list[str]:
        """Every guarantee that does not hold for both lines; `finished`: nothing waits any more.

        `skew_s`: how far the broker's clock was ahead of the reader's.
        """
        groups = self.live, self.retry
        return violations(
            self.live.witness.entries,
            self._visible(),
            committed={
                partition: offset
                for group in groups
                for partition, offset in self.fake.group(group.group_id).items()
            },
            strategy_length=len(self.live.strategy),
            retry_strategy_length=len(self.retry.strategy),
            letter_limit=self.live.dead_letters.limit,
            alive_within_s=alive_within_s,
            asked_at_s=self.clock.now_s(),
            finished=finished,
            retries=self.retries,
            skew_s=skew_s,
        )

    def _visible(self) -> dict[Partition, list[int]]:
        return {
            (topic, number): [record.offset for record in log.records]
            for topic, number in (*self.live.partitions, *self.retry.partitions)
            for log in (self.fake.topics[topic].partitions[number],)
        }

    def note_written(self) -> None:
        """Whatever is new in a retry topic has been written by now: before each turn."""
        for topic in self.retries.topics:
            there = self.fake.topics.get(topic)  # it may be deleted
            for number, log in enumerate(there.partitions if there else []):
                for record in log.records:
                    place = topic, number, record.offset
                    stepped_s = (record.timestamp_ms - self.fake.broker_ms()) / 1000
                    self.dependency.written_s.setdefault(place, self.clock.now_s() + stepped_s)

    def _records(self, topics: Sequence[str]) -> Iterator[Any]:
        for topic in topics:
            for log in self.fake.topics[topic].partitions:
                yield from log.records

    @staticmethod
    def _parsed(record: Any) -> DeadLetter:
        return parse(record.headers or [], record.key, record.value)


__all__ = ["GROUP", "LETTERS", "PREFIX", "TOPIC", "Attempt", "TwoLines"]
