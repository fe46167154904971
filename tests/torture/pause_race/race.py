"""One member whose partitions are assigned again while its circuits are open."""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from confluent_kafka import Consumer, Message, TopicPartition

from linear_retry import LinearConsumer, Strategy, events
from linear_retry.consumer.settings.consumer_config import Dependencies
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from linear_retry.kafka.producers.acknowledged import write_all
from linear_retry.records.record import OutgoingRecord
from linear_retry.scope import Partition, ScopeKind
from linear_retry.testing import (
    AttemptStarted,
    EventEmitted,
    EventLog,
    Liveness,
    all_guarantees,
    broken,
)
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.scenarios.handlers import OutageError
from tests.scenarios.protocols import PROTOCOLS
from tests.testing.violations import done_places
from tests.torture.layer import Counts
from tests.torture.pause_race.restless import LeapingClock, Restless, visit

_SHOWN_ENTRIES = 60
_OPEN_S = 200.0
"""Longer than a play takes, shorter than `max.poll.interval.ms`: then the clock leaps over it."""
_REVIVAL_S = 6.0
"""Longer than the timeout of a silent partition."""
_PATIENCE_S = 3.0
"""So long nothing more is read before the clock leaps to where dead partitions are looked for."""
_LONGEST_VISIT_S = 10.0
_MEMBER, _TOPIC, _OTHER, _LETTERS, _GROUP = "ours", "orders", "refunds", "orders.dlq", "billing"
_MESSAGES = 3
_MOST_LEAKS = 0.01
"""For each assignment. librdkafka lets one through in 60,000; of those that nobody pauses, most."""
_SCOPES: tuple[ScopeKind, ...] = ("consumer", "topic", "partition")


class Race:
    """One member, some hundred partitions with messages, and someone who comes and goes."""

    def __init__(
        self, kafka: EmbeddedKafka, protocol: str, rng: random.Random, stack: ExitStack
    ) -> None:
        self._kafka, self._protocol, self._rng = kafka, protocol, rng
        self._scope: ScopeKind = rng.choice(_SCOPES)
        self._clock = LeapingClock()
        self._log = EventLog(self._clock.now_s)
        self._down = True
        self._visible: dict[Partition, list[int]] = {}
        self._owned: set[Partition] = set()
        self._visits = 0
        self._make_topics(rng.randrange(100, 501, 50))
        self._client: Restless
        self._consumer = stack.enter_context(self._ours())
        pool = stack.enter_context(ThreadPoolExecutor(1, _MEMBER))
        stack.callback(self._consumer.stop)
        handler = self._log.handler(_MEMBER, self._handle)
        self._ended = pool.submit(self._live, handler)

    def open(self) -> None:
        """Every circuit that can open is open: of the consumer, of a topic, of its partitions."""
        count = len(self._of(_TOPIC)) if self._scope == "partition" else 1
        self._wait(lambda: len(self._emitted(events.CircuitOpened)) >= count, "all circuits open")
        self._begin = len(self._log.entries)

    def share_anew(self) -> None:
        """All our partitions go and come back; or some, as another member comes and goes."""
        before = self.assignments
        if self._rng.random() < 0.9:
            self._client.forgetful = self._rng.random() < 0.8
            self._client.leave()
            self._client.join()
        else:
            self._visits += 1
            leaves_at_s = self._clock.now_s() + _LONGEST_VISIT_S
            visit(
                self._config(),
                [_TOPIC, _OTHER],
                lambda share: share > 0 or self._clock.now_s() > leaves_at_s,
            )
        self._wait(lambda: self.assignments > before and self._has_all(), "all is ours again")
        if self._scope == "topic":  # the other one is not stopped, and has to go on meanwhile
            self._fill(_OTHER, self._rng.sample([n for _, n in self._of(_OTHER)], 10))
        pause_s = self._rng.choice((0.0, 0.02, 0.05, 0.1))
        began_s = self._clock.now_s()
        wait_until(lambda: self._clock.now_s() - began_s >= pause_s, "what leaks has time to")

    def close(self) -> None:
        """What is not stopped is read to its end; after `retry_at` so is all the rest."""
        if self._scope != "consumer":
            # The leap makes every silence long: each must have said something before.
            self._fill(_OTHER, [number for _, number in self._of(_OTHER)])
            self._read_to_the_end([_OTHER])
        is_away = self._rng.random() < 0.5
        if is_away:
            self._client.forgetful = False
            self._client.leave()
            self._wait(lambda: not self._owned, "nothing is ours")
        self._end = len(self._log.entries)
        self._down = False
        self._clock.leap(_OPEN_S)
        if is_away:  # what was paused for them must not stay so
            self._wait(self._are_closed, "circuits without partitions are dropped")
            self._client.join()
        self._read_to_the_end([_TOPIC, _OTHER])
        self._consumer.stop()
        self._ended.result(PATIENCE_S)
        self._log.committed(self._committed())

    def judge(self) -> None:
        """Every guarantee, and nothing at all attempted of what had to stand still."""
        chosen = all_guarantees(self._visible, strategy_length=1)
        # The clock's leaps are no waiting.
        found = broken(self._log.entries, [one for one in chosen if not isinstance(one, Liveness)])
        assert not found, "\n".join(map(str, found[:5]))
        meanwhile = self._log.entries[self._begin : self._end]
        attempted = [
            one.place
            for one in meanwhile
            if isinstance(one, AttemptStarted) and self._is_stopped(one)
        ]
        assert not attempted, f"attempted while open: {attempted[:10]}"
        leaks = len(self._emitted(events.LeakDropped))
        assert leaks <= self.assignments * _MOST_LEAKS, f"{leaks} leaks: no pause?"

    @property
    def assignments(self) -> int:
        """How many partitions this member was given, each time counted."""
        return sum(len(event.partitions) for event in self._emitted(events.Assigned))

    def counts(self) -> Counts:
        return Counter(
            {
                "partition-assignments": self.assignments,
                f"partition-assignments, {self._protocol}": self.assignments,
                f"rebalances while open, scope {self._scope}": len(self._emitted(events.Assigned)),
                "visits of another member": self._visits,
                "circuits dropped while nothing was ours": sum(
                    event.outcome == "dropped" for event in self._emitted(events.CircuitClosed)
                ),
                "leaks dropped": len(self._emitted(events.LeakDropped)),
                "partitions revived": len(self._emitted(events.PartitionRevived)),
            }
        )

    def _ours(self) -> LinearConsumer:
        def made(config: dict[str, Any]) -> Restless:
            self._client = Restless(config)
            return self._client

        return LinearConsumer(
            self._config(),
            [_TOPIC, _OTHER],
            strategy=Strategy([_OPEN_S]),
            transient=OutageError,
            dead_letters=_LETTERS,
            scope=self._scope,
            listeners=[self._log.listener(_MEMBER), self._receive],
            _dependencies=Dependencies(consumer=made, clock=self._clock),
        )

    def _live(self, handler: Any) -> None:
        self._consumer.run(handler)
        self._consumer.close()

    def _config(self) -> dict[str, Any]:
        # The mock cluster waits for all members for the session less a second, at each rebalance.
        times = {"session.timeout.ms": 1_050, "heartbeat.interval.ms": 50}
        return {
            "bootstrap.servers": self._kafka.bootstrap,
            "group.id": _GROUP,
            "log_level": 0,
            **PROTOCOLS[self._protocol],
            **({} if self._protocol == "consumer" else times),
        }

    def _make_topics(self, partitions: int) -> None:
        self._kafka.create_topic(_LETTERS, 1)
        for topic, count in ((_TOPIC, partitions - 50), (_OTHER, 50)):
            self._kafka.create_topic(topic, count)
            self._fill(topic, [number for number in range(count) for _ in range(_MESSAGES)])
        # Else each partition's first message is committed before it is handled, one at a time.
        begin = [TopicPartition(*key, 0) for key in self._visible]
        with Consumer(self._config()) as committer:
            committer.commit(offsets=begin, asynchronous=False)

    def _fill(self, topic: str, numbers: list[int]) -> None:
        records = [OutgoingRecord(topic, b"", b"", partition=number) for number in numbers]
        keys = {"bootstrap.servers": self._kafka.bootstrap}
        for number, offset in zip(numbers, write_all(keys, records), strict=True):
            self._visible.setdefault((topic, number), []).append(offset)

    def _handle(self, message: Message) -> None:
        if self._down and message.topic() == _TOPIC:
            raise OutageError

    def _receive(self, event: events.Event) -> None:
        match event:
            case events.Assigned(partitions):
                self._owned |= set(partitions)
            case events.Revoked(partitions) | events.Lost(partitions):
                self._owned -= set(partitions)
            case _:
                return

    def _has_all(self) -> bool:
        return len(self._owned) == len(self._visible)

    def _read_to_the_end(self, topics: list[str]) -> None:
        wanted = {
            (*key, offset)
            for topic in topics
            for key in self._of(topic)
            for offset in self._visible[key]
        }
        progress = _Progress(self._clock)
        self._wait(
            lambda: progress.is_made(len(wanted & done_places(self._log.entries))) == len(wanted),
            f"all of {', '.join(topics)} is read",
        )

    def _are_closed(self) -> bool:
        opened, closed = self._emitted(events.CircuitOpened), self._emitted(events.CircuitClosed)
        return len(opened) == len(closed)

    def _is_stopped(self, begun: AttemptStarted) -> bool:
        return self._scope == "consumer" or begun.place[0] == _TOPIC

    def _of(self, topic: str) -> list[Partition]:
        return [key for key in self._visible if key[0] == topic]

    def _emitted(self, kind: type[events.Event]) -> list[Any]:
        received = [one.event for one in tuple(self._log.entries) if isinstance(one, EventEmitted)]
        return [event for event in received if isinstance(event, kind)]

    def _committed(self) -> dict[Partition, int]:
        with Consumer(self._config()) as reader:
            answers = reader.committed(
                [TopicPartition(*key) for key in self._visible], timeout=PATIENCE_S
            )
        return {(one.topic, one.partition): one.offset for one in answers if one.offset >= 0}

    def _wait(self, is_so: Any, what: str) -> None:
        wait_until(is_so, what)

    def _what(self) -> str:
        return f"{self._protocol}, scope {self._scope}, {len(self._visible)} partitions"

    def story(self) -> str:
        """What there was, what is not done, and what happened last."""
        done = done_places(self._log.entries)
        undone = [
            (*key, offset)
            for key, found in self._visible.items()
            for offset in found
            if (*key, offset) not in done
        ]
        owned = f"{len(self._owned)} of {len(self._visible)} owned"
        lines = map(str, self._log.entries[-_SHOWN_ENTRIES:])
        return "\n".join([self._what(), owned, f"{len(undone)} undone: {undone[:10]}", *lines])


class _Progress:
    """Leaps over the timeout of dead partitions where nothing else is left to be read."""

    def __init__(self, clock: LeapingClock) -> None:
        self._clock = clock
        self._most, self._since_s = 0, clock.now_s()

    def is_made(self, done: int) -> int:
        """`done`, and the leap where that was as many for too long."""
        now_s = self._clock.now_s()
        if done > self._most:
            self._most, self._since_s = done, now_s
        elif now_s - self._since_s > _PATIENCE_S:
            self._clock.leap(_REVIVAL_S)
            self._since_s = self._clock.now_s()
        return done
