"""The real part of the fleet: consumers on a broker, whose dependency is down as the model says."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event as Flag
from typing import Protocol

from examples.fleet.model import Calendar, Service, Week
from linear_retry.consumer.linear_consumer import LinearConsumer
from linear_retry.errors import BrokerError
from linear_retry.events import Assigned, DeadLettered, Event
from linear_retry.journal.journal import Journal
from linear_retry.kafka.producers.acknowledged import write_all
from linear_retry.kafka.quiet import QUIET
from linear_retry.records.record import OutgoingRecord
from linear_retry.retry.clock import now_ms

PARTITIONS = 2
_HANDLER_S = 0.005
_BAD_EVERY = 400
_BAD = b"bad"
_JOIN_S = 60


@dataclass(frozen=True, slots=True)
class Topics:
    """The names of the fleet's topics, all of which begin with `prefix`."""

    bootstrap: str
    prefix: str

    @property
    def journal(self) -> str:
        return f"{self.prefix}.journal"

    @property
    def dead_letters(self) -> str:
        return f"{self.prefix}.dlq"

    def of(self, service: Service) -> str:
        """The topic that a real service reads, which is also the name of its group."""
        return f"{self.prefix}.{service.group}"


@dataclass(frozen=True, slots=True)
class RealOutcome:
    """What a real member went through; `letters` counts its acknowledged dead letters."""

    group: str
    calendar: Calendar
    letters: int


class _Message(Protocol):
    def value(self) -> bytes | None: ...


class _Handler:
    """A handler that takes 5 ms while its dependency is up; one message in 400 is bad."""

    def __init__(self, service: Service) -> None:
        self.ended = Flag()
        self.calendar = Calendar(())
        self._service = service

    def __call__(self, message: _Message) -> None:
        if self.calendar.during(now_ms()) is not None:
            raise self._service.error
        if message.value() == _BAD:
            raise self._service.permanent_error
        self.ended.wait(_HANDLER_S)


class Member:
    """One real consumer, run in a thread of its own."""

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
            listeners=[Journal(topics.journal), self._on_event],
        )

    def run(self) -> RealOutcome:
        """Consumes until it is stopped; returns what it went through."""
        with self._consumer:
            self._consumer.run(self._handler)
        return RealOutcome(self._group, self._handler.calendar, self._letters)

    def wait(self) -> None:
        """Waits until it has its partitions; raises `BrokerError` if it has none in a minute."""
        if not self._joined.wait(_JOIN_S):
            raise BrokerError(f"{self._group} was assigned nothing within {_JOIN_S} s")

    def begin(self, week: Week, seed: int) -> None:
        """From now on the dependency is down whenever the model says so."""
        self._handler.calendar = Calendar.of(self._service, week, seed)

    def _on_event(self, event: Event) -> None:
        self._letters += isinstance(event, DeadLettered)
        if isinstance(event, Assigned):
            self._joined.set()

    def stop(self) -> None:
        self._handler.ended.set()
        self._consumer.stop()


@contextmanager
def running(members: Sequence[Member]) -> Iterator[Callable[[], tuple[RealOutcome, ...]]]:
    """Runs all members inside the `with`; the function that it gives stops them."""
    with ThreadPoolExecutor(len(members), "member") as pool:
        running = [pool.submit(member.run) for member in members]

        def stop() -> tuple[RealOutcome, ...]:
            for member in members:
                member.stop()
            return tuple(each.result() for each in running)

        try:
            yield stop
        finally:
            for member in members:
                member.stop()


def fill(service: Service, topics: Topics, week_s: float) -> None:
    """Writes more messages than can be handled in so long a week."""
    count = round(2 * week_s / _HANDLER_S)
    topic = topics.of(service)
    write_all(
        QUIET | {"bootstrap.servers": topics.bootstrap, "enable.idempotence": True},
        (
            OutgoingRecord(topic, b"customer-%d" % (n % 7), _value(n), partition=n % PARTITIONS)
            for n in range(1, count + 1)
        ),
    )


def _value(number: int) -> bytes:
    return b"{}" if number % _BAD_EVERY else _BAD
