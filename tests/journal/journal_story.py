"""Stories of members, as entries of a journal."""

import itertools
from collections.abc import Iterable
from datetime import UTC, datetime

from confluent_kafka import Producer

from linear_retry import events as e
from linear_retry.journal.entry import Entry, encode
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from linear_retry.scope import Partition, Scope
from tests.patience import PATIENCE_S

GROUP = "billing"
ERROR = "ConnectionError(\"HTTPConnectionPool(host='ledger.internal', port=8080)\x1b[2J\")"


def at(at_ms: int) -> datetime:
    """The moment, aware."""
    return datetime.fromtimestamp(at_ms / 1000, UTC)


class Life:
    """Says events, numbered, at times that the test sets."""

    def __init__(self, member: str, instance: str | None = None, group: str = GROUP) -> None:
        self.member, self.instance, self.group = member, instance or member, group
        self._numbers = itertools.count(1)

    def says(self, at_ms: int, event: e.Event) -> Entry:
        number = next(self._numbers)
        return Entry(self.instance, number, at_ms, self.group, self.member, event)


def opened(
    partition: Partition, offset: int, retry_at_ms: int, scope: Scope | None = None
) -> e.CircuitOpened:
    at_once = at(retry_at_ms)
    return e.CircuitOpened(scope or Scope(), *partition, offset, ERROR, 1, 5.0, at_once)


def failed(
    partition: Partition, offset: int, failures: int, retry_at_ms: int, scope: Scope | None = None
) -> e.ProbeFailed:
    at_once = at(retry_at_ms)
    return e.ProbeFailed(scope or Scope(), *partition, offset, "again", failures, 5.0, at_once)


def outage(now_ms: int) -> list[Entry]:
    """One member waits with a message, one with a letter, one was killed, one has left."""
    pod, late = Life("pod-1"), Life("billing-consumer-7d9c5c7b9-x2x4z")
    killed, left = Life("5d0e6c1a-6f0b-4a41-9d4e-0d8f3a7e2c11"), Life("pod-8")
    orders = [("orders", number) for number in range(6)]
    long_name = ("orders.with.a.long.name.eu-west-1", 6)
    away = "UNKNOWN_TOPIC_OR_PART: no such topic"
    letter = (Scope(*long_name), *long_name, 123_456_789, "orders.dlq", away, 3, 5.0)
    output: list[tuple[int, Life, e.Event]] = [
        (4000, pod, e.Assigned((*orders[:3],))),
        (3900, killed, e.Assigned((orders[3], orders[4]))),
        (3900, late, e.Assigned((orders[5], long_name))),
        (310, pod, opened(orders[0], 1042, now_ms - 300_000)),
        (300, pod, failed(orders[0], 1042, 2, now_ms + 204_000)),
        (100, left, e.Stopped(left_group=True)),
        (60, late, e.DeadLetterFailed(*letter, at(now_ms - 5000))),
        (3, pod, e.Assigned((orders[3], orders[4]))),
    ]
    return [life.says(now_ms - ago_s * 1000, event) for ago_s, life, event in output]


def recovered(at_ms: int, group: str) -> list[Entry]:
    """A member of this group waited for a minute."""
    life, closed = Life(f"{group}-1", group=group), e.CircuitClosed(Scope(), "recovered", 60.0)
    opening = opened((group, 0), 7, at_ms)
    return [life.says(at_ms, opening), life.says(at_ms + 60_000, closed)]


def write(kafka: EmbeddedKafka, topic: str, entries: Iterable[Entry]) -> None:
    """To one partition, in this order, with their times."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0, "linger.ms": 0})
    for entry in entries:
        producer.produce(topic, encode(entry), entry.key, partition=0, timestamp=entry.at_ms)
    assert 0 == producer.flush(PATIENCE_S)
