"""A consumer is not held up by a journal that nobody takes, with librdkafka's own producer."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Consumer, Message

from linear_retry import Event, Journal, LinearConsumer, Strategy, events
from linear_retry.journal.entry import Entry, read_entry
from linear_retry.testing import EmbeddedKafka
from tests.consumer.group import OutageError
from tests.patience import PATIENCE_S

_JOURNAL = "linear-retry.journal"


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    """Where the messages are."""
    with EmbeddedKafka() as embedded:
        embedded.create_topic("orders")
        embedded.create_topic("orders.dlq")
        embedded.produce("orders", [b"%d" % number for number in range(5)])
        yield embedded


@pytest.fixture
def other() -> Iterator[EmbeddedKafka]:
    """Another cluster, where the journal is."""
    with EmbeddedKafka() as embedded:
        embedded.create_topic(_JOURNAL)
        yield embedded


def _entries(kafka: EmbeddedKafka) -> list[Entry]:
    """What is in the journal now."""
    wanted = sum(map(len, kafka.offsets(_JOURNAL).values()))
    keys = {"bootstrap.servers": kafka.bootstrap, "group.id": "reader", "log_level": 0}
    with Consumer({**keys, "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe([_JOURNAL])
        read: list[Entry] = []
        while len(read) < wanted:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"{len(read)} of {wanted} entries"
            entry = read_entry(message.value())
            assert isinstance(entry, Entry)
            read.append(entry)
    return read


def _journal(other: EmbeddedKafka, **config: Any) -> Journal:
    return Journal(config={"bootstrap.servers": other.bootstrap, "log_level": 0, **config})


def _reported(kafka: EmbeddedKafka, journal: Journal, fails: Callable[[], bool]) -> list[Event]:
    """A consumer lives until it has handled offset 4; attempts of offset 2 fail while `fails`."""
    reported: list[Event] = []
    consumer = LinearConsumer(
        {"bootstrap.servers": kafka.bootstrap, "group.id": "billing", "log_level": 0},
        ["orders"],
        strategy=Strategy([0.05]),
        transient=OutageError,
        dead_letters="orders.dlq",
        on_exhausted="repeat",
        listeners=[reported.append, journal],
    )

    def handle(message: Message) -> None:
        if message.offset() == 2 and fails():
            raise OutageError
        if message.offset() == 4:
            consumer.stop()

    with consumer:
        consumer.run(handle)
    return reported


def _times(number: int) -> Callable[[], bool]:
    """Fails so often."""
    asked = count(1)
    return lambda: next(asked) <= number


def test_it_is_on_a_cluster_of_its_own(kafka: EmbeddedKafka, other: EmbeddedKafka) -> None:
    """`config` may name other brokers than the consumer's; nothing is missing there."""
    journal = _journal(other)
    reported = _reported(kafka, journal, _times(3))
    assert (reported, 0) == ([entry.event for entry in _entries(other)], journal.dropped)


def test_nobody_takes_it(
    kafka: EmbeddedKafka, other: EmbeddedKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """Every message is handled, every event is counted as dropped, and the log says why."""
    journal = _journal(other)
    with other.down(), caplog.at_level(logging.WARNING, logger="linear_retry"):
        reported = _reported(kafka, journal, _times(20))
    assert 20 == sum(isinstance(one, events.CircuitOpened | events.ProbeFailed) for one in reported)
    assert len(reported) == journal.dropped
    lost = f"{len(reported)} events of member {journal.member} for {_JOURNAL} dropped since"
    assert f"journal: {lost} " in caplog.messages[-1]


def test_it_comes_back_after_deliveries_have_timed_out(
    kafka: EmbeddedKafka, other: EmbeddedKafka
) -> None:
    """A new producer writes then; the numbers say how much is missing."""
    journal = _journal(other, **{"message.timeout.ms": 1000})
    with ExitStack() as down:
        down.enter_context(other.down())

        def fails() -> bool:
            if journal.dropped:
                down.close()
            return not (journal.dropped and other.offsets(_JOURNAL)["linear-retry.journal", 0])

        reported = _reported(kafka, journal, fails)
    entries = _entries(other)
    assert isinstance(entries[-1].event, events.Stopped)
    assert entries[-1].sequence == len(reported)
    missing = len(reported) - len({entry.event_id for entry in entries})
    assert 0 < missing == journal.dropped
