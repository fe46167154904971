"""How does the real part of the fleet live: consumers on a broker, of what really is down?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event as Flag
from typing import Protocol

from linear_retry.consumer.linear_consumer import LinearConsumer
from linear_retry.demo.fleet import Calendar, Service, Week
from linear_retry.errors import BrokerError
from linear_retry.events import Assigned, DeadLettered, Event
from linear_retry.journal.journal import Journal
from linear_retry.kafka.topics.plain import produce

PARTITIONS = 2
_HANDLER_S = 0.005
_BAD_EVERY = 400
_BAD = b"bad"
_JOIN_S = 60


@dataclass(frozen=True, slots=True)
class Topics:
    """Where the fleet lives; `prefix` begins each name."""

    bootstrap: str
    prefix: str

    @property
    def journal(self) -> str:
        return f"{self.prefix}.journal"

    @property
    def dead_letters(self) -> str:
        return f"{self.prefix}.dlq"

    def of(self, service: Service) -> str:
        """What a real service reads, and the group that it is in."""
        return f"{self.prefix}.{service.group}"


@dataclass(frozen=True, slots=True)
class Lived:
    """What one of them has met: the truth. `letters`: how many were acknowledged."""

    group: str
    calendar: Calendar
    letters: int


class _Message(Protocol):
    def value(self) -> bytes | None: ...


class _Handler:
    """Handles for 5 ms where the dependency is there; a message in 400 is bad."""

    def __init__(self, service: Service) -> None:
        self.ended = Flag()
        self.calendar = Calendar(())
        self._service = service

    def __call__(self, message: _Message) -> None:
        if self.calendar.during(time.time_ns() // 1_000_000) is not None:
            raise self._service.error
        if message.value() == _BAD:
            raise self._service.permanent
        self.ended.wait(_HANDLER_S)


class Member:
    """One real consumer, to be run in a thread of its own."""

    def __init__(self, service: Service, topics: Topics) -> None:
        self._service, self._group = service, topics.of(service)
        self._handler, self._joined, self._letters = _Handler(service), Flag(), 0
        self._consumer = LinearConsumer(
            {
                "bootstrap.servers": topics.bootstrap,
                "group.id": topics.of(service),
                "auto.offset.reset": "earliest",
                "log_level": 0,
            },
            [topics.of(service)],
            strategy=service.strategy,
            transient=type(service.error),
            dead_letters=topics.dead_letters,
            listeners=[Journal(topics.journal), self._heard],
        )

    def run(self) -> Lived:
        """Until it is stopped; what it has met."""
        with self._consumer:
            self._consumer.run(self._handler)
        return Lived(self._group, self._handler.calendar, self._letters)

    def wait(self) -> None:
        """Until it has its partitions. Raises `BrokerError` where it gets none within a minute."""
        if not self._joined.wait(_JOIN_S):
            raise BrokerError(f"{self._group} was assigned nothing within {_JOIN_S} s")

    def begin(self, week: Week, seed: int) -> None:
        """From now on what is behind it is down where the model says so."""
        self._handler.calendar = Calendar.of(self._service, week, seed)

    def _heard(self, event: Event) -> None:
        self._letters += isinstance(event, DeadLettered)
        if isinstance(event, Assigned):
            self._joined.set()

    def stop(self) -> None:
        self._handler.ended.set()
        self._consumer.stop()


@contextmanager
def living(members: Sequence[Member]) -> Iterator[Callable[[], tuple[Lived, ...]]]:
    """All of them run inside the `with`, until what is given is called; else until its end."""
    with ThreadPoolExecutor(len(members), "member") as pool:
        running = [pool.submit(member.run) for member in members]

        def stop() -> tuple[Lived, ...]:
            for member in members:
                member.stop()
            return tuple(each.result() for each in running)

        try:
            yield stop
        finally:
            for member in members:
                member.stop()


def fill(service: Service, topics: Topics, week_s: float) -> None:
    """Write more messages than can be handled in so long a week."""
    count = round(2 * week_s / _HANDLER_S)
    produce(
        topics.bootstrap,
        topics.of(service),
        (
            (number % PARTITIONS, b"customer-%d" % (number % 7), _value(number))
            for number in range(1, count + 1)
        ),
    )


def _value(number: int) -> bytes:
    return b"{}" if number % _BAD_EVERY else _BAD
