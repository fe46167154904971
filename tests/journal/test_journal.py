"""The journal has every event, and the consumer none of its troubles."""

import json
import logging
import os
import socket
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from linear_retry import (
    ConfigurationError,
    Event,
    Journal,
    LinearConsumer,
    Strategy,
    UsageError,
    events,
)
from linear_retry.consumer.settings.consumer_config import Dependencies
from linear_retry.journal.entry import Entry, Process, encode, read_entry
from linear_retry.kafka import Message
from tests.consumer.group import GROUP, LETTERS, TOPIC, OutageError, consumer_on
from tests.fake.cluster import FakeKafka

_JOURNAL = "linear-retry.journal"
_SERVERS = {"bootstrap.servers": "fake:9092"}


@pytest.fixture
def fake() -> FakeKafka:
    """One message, its topic, and those of the letters and of the journal."""
    kafka = FakeKafka(balanced=True)
    for name in (TOPIC, LETTERS, _JOURNAL):
        kafka.create_topic(name)
    kafka.append(TOPIC, 0, b"value")
    return kafka


class _Life:
    """One consumer with a journal; what it was told, and when its handler was called."""

    def __init__(self, fake: FakeKafka, *journals: Journal, **options: Any) -> None:
        self.fake = fake
        self.reported: list[Event] = []
        self.attempts_s: list[float] = []
        self.waiting: list[int] = []
        listeners = [self.reported.append, *journals]
        self.consumer = consumer_on(fake, listeners=listeners, **options)

    def run(self, fail: int = 0, act: Callable[[int], object] = lambda _: None) -> None:
        """The first `fail` attempts fail; ends after the next one. `act` is told their number."""

        def handle(_: Message) -> None:
            self.attempts_s.append(self.fake.clock.now_s())
            self.waiting.append(sum(map(len, self.fake.producers)))
            act(len(self.attempts_s))
            if len(self.attempts_s) <= fail:
                raise OutageError
            self.consumer.stop()

        with self.consumer:
            self.consumer.run(handle)


def _entries(fake: FakeKafka, topic: str = _JOURNAL) -> list[Entry]:
    read = [read_entry(record.value) for record in fake.topics[topic].partitions[0].records]
    return [entry for entry in read if isinstance(entry, Entry)]


def _journaling(fake: FakeKafka, source: str = TOPIC, **keys: str) -> LinearConsumer:
    """With librdkafka's keys as a user gives them."""
    return LinearConsumer(
        {**_SERVERS, "group.id": GROUP, **keys},
        [source],
        strategy=Strategy([1]),
        transient=OutageError,
        dead_letters=LETTERS,
        listeners=[Journal()],
        _dependencies=Dependencies(fake.consumer, fake.producer, fake.admin, fake.clock),
    )


def _lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if line.startswith("journal: ")]


def test_every_event_is_in_the_topic_in_order(fake: FakeKafka) -> None:
    """The same events as any listener gets, numbered from 1, the last being `Stopped`."""
    journal = Journal()
    life = _Life(fake, journal)
    life.run(fail=2)
    entries = _entries(fake)
    assert life.reported == [entry.event for entry in entries]
    assert list(range(1, len(entries) + 1)) == [entry.sequence for entry in entries]
    assert isinstance(entries[-1].event, events.Stopped)
    assert 0 == journal.dropped


def test_a_member_can_be_traced_to_its_process(
    fake: FakeKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """A UUID in the journal led nobody to a pod: journal, health and log name host, pid and
    client.id, and the same member."""
    caplog.set_level(logging.INFO, "linear_retry")
    consumer = _journaling(fake, **{"client.id": "billing-7"})
    with consumer:
        consumer.run(lambda _: consumer.stop())
    here = Process(socket.gethostname(), os.getpid(), "billing-7")
    ((member, process),) = {(entry.member, entry.process) for entry in _entries(fake)}
    assert (consumer.member, here) == (member, process)
    assert (member, here) == (consumer.health().member, consumer.health().process)
    started = f"started: member {member} of group {GROUP} on {here}"
    assert [started] == [text for text in caplog.messages if text.startswith("started")]


@pytest.mark.parametrize("process", [{"pid": True}, {"host": None}, {"client_id": 7}, {"pid": "x"}])
def test_a_process_that_is_garbled_spoils_no_entry(process: dict[str, object]) -> None:
    """It says where to look, and no more: the entry is read without it."""
    entry = Entry("i", 1, 1, GROUP, "m", events.Stopped(True), Process("node-3", 4711, "c"))
    found = read_entry(json.dumps(json.loads(encode(entry)) | process).encode())
    assert replace(entry, process=None) == found


def test_a_static_member_keeps_its_name_over_its_lives(fake: FakeKafka) -> None:
    """Never Kafka's member id, which changes with each life, as the instance does."""
    for _ in range(2):
        consumer = _journaling(fake, **{"group.instance.id": "pod-1"})
        with consumer:
            consumer.stop()
            consumer.run(lambda _: None)
    entries = _entries(fake)
    assert ({"pod-1"}, 2) == (
        {entry.member for entry in entries},
        len({entry.instance for entry in entries}),
    )


def test_times_are_of_the_telling(fake: FakeKafka) -> None:
    """`at_ms` is when the event was told, and the record's timestamp is the same."""
    _Life(fake, Journal()).run(fail=1)
    opened, closed = (
        entry
        for entry in _entries(fake)
        if isinstance(entry.event, events.CircuitOpened | events.CircuitClosed)
    )
    assert 1000 == closed.at_ms - opened.at_ms
    stamps = [record.timestamp_ms for record in fake.topics[_JOURNAL].partitions[0].records]
    assert stamps == [entry.at_ms for entry in _entries(fake)]


def test_the_successful_path_writes_nothing(fake: FakeKafka) -> None:
    """A thousand successes are as many entries as one: no event, no cost."""
    for _ in range(999):
        fake.append(TOPIC, 0, b"value")
    life = _Life(fake, Journal())
    with life.consumer as consumer:
        consumer.run(lambda message: consumer.stop() if message.offset() == 999 else None)
    kinds = [type(entry.event).__name__ for entry in _entries(fake)]
    assert ["Assigned", "Revoked", "Stopped"] == kinds


@pytest.mark.parametrize("trouble", ["unreachable", "missing"])
def test_thousands_of_openings_without_a_journal_topic(
    fake: FakeKafka, caplog: pytest.LogCaptureFixture, trouble: str
) -> None:
    """The consumer's timing is unchanged, memory is bounded, and what is dropped is counted."""
    count = 2_500
    options = {"strategy": Strategy([0.01]), "on_exhausted": "repeat"}
    bare = FakeKafka(balanced=True)
    for name in (TOPIC, LETTERS):
        bare.create_topic(name)
    bare.append(TOPIC, 0, b"value")
    alone = _Life(bare, **options)
    alone.run(fail=count)
    if trouble == "missing":
        del fake.topics[_JOURNAL]
    else:
        fake.faults.delivery_s = 1e6
    journal = Journal()
    life = _Life(fake, journal, **options)
    life.run(fail=count)
    assert alone.attempts_s == life.attempts_s
    assert len(life.reported) == journal.dropped
    assert 1_000 >= max(life.waiting)
    took_s = life.attempts_s[-1] - life.attempts_s[0]
    assert 2 <= len(_lines(caplog)) <= took_s / 60 + 3


def test_it_says_so_once_a_minute(fake: FakeKafka, caplog: pytest.LogCaptureFixture) -> None:
    """At the start where the topic is missing; then how many are lost; at the end the sum."""
    del fake.topics[_JOURNAL]
    at_s: list[float] = []
    caplog.set_level(logging.WARNING, logger="linear_retry")

    def note(_: int) -> None:
        at_s.extend([fake.clock.now_s()] * (len(_lines(caplog)) - len(at_s)))

    life = _Life(fake, Journal(), strategy=Strategy([1]), on_exhausted="repeat")
    life.run(300, note)
    assert (
        f"journal: no such topic: {_JOURNAL}; create it. The consumer continues"
        == (_lines(caplog)[0])
    )
    assert all(later - earlier >= 60 for earlier, later in pairwise(at_s[1:]))
    assert 300 / 60 - 1 <= len(at_s) <= 300 / 60 + 2
    lost = f"{len(life.reported)} events of member {life.consumer.member} for {_JOURNAL}"
    total = f"journal: {lost} dropped since 2026-01-01T00:00:"
    assert _lines(caplog)[-1].startswith(total)


@pytest.mark.parametrize(("close_timeout_s", "waits_s"), [(4, 1.0), (40, 2.0)])
def test_the_end_is_bounded(fake: FakeKafka, close_timeout_s: float, waits_s: float) -> None:
    """Nobody takes the last entries: `close` takes a quarter of its time longer, at most 2 s."""
    took_s = []
    for listeners in ([], [Journal()]):
        life = _Life(fake, *listeners, close_timeout_s=close_timeout_s)
        life.run(act=lambda _: fake.delete_topic(_JOURNAL) if _JOURNAL in fake.topics else None)
        took_s.append(fake.clock.now_s() - life.attempts_s[-1])
        fake.append(TOPIC, 0, b"value")
    # One of them may wait a poll longer for the answer to a commit.
    assert waits_s == pytest.approx(took_s[1] - took_s[0], abs=0.101)


def test_a_gap_in_the_numbers_is_what_was_dropped(fake: FakeKafka) -> None:
    """A reader sees that something is missing, and how much."""
    journal = Journal()

    def disturb(number: int) -> None:
        fake.faults.raise_in_produce(BufferError(), 1 if number in (2, 3) else 0)

    _Life(fake, journal, strategy=Strategy([1] * 9)).run(6, disturb)
    numbers = [entry.sequence for entry in _entries(fake)]
    assert 2 == journal.dropped == numbers[-1] - len(numbers)


def test_after_the_end_nothing_is_written(fake: FakeKafka) -> None:
    """`Stopped` is the last entry; what is said after it is counted as dropped."""
    journal = Journal()
    _Life(fake, journal).run()
    before = len(_entries(fake))
    journal(events.ClientError("_TIMED_OUT", "left behind", 1))
    assert (before, 1) == (len(_entries(fake)), journal.dropped)


def test_one_journal_is_for_one_consumer(fake: FakeKafka) -> None:
    """Group and member would be another's: refused as the second is made."""
    journal = Journal()
    consumer_on(fake, listeners=[journal])
    with pytest.raises(ConfigurationError, match="belongs to another consumer"):
        consumer_on(fake, listeners=[journal])


def test_a_journal_of_no_consumer_says_so() -> None:
    """Wrapped in a function it would not know whose events these are."""
    with pytest.raises(UsageError, match="put the Journal itself among a consumer's listeners"):
        Journal()(events.Stopped(left_group=True))
    assert 0 == Journal().dropped


@pytest.mark.parametrize(
    ("topic", "config", "reason"),
    [
        ("a b", {}, "Journal topic='a b': the name of a topic"),
        ("", {}, "Journal topic='': the name of a topic"),
        (7, {}, "Journal topic=7: the name of a topic"),
        ("journal", {"linger.mss": 5}, "Journal config linger.mss"),
    ],
)
def test_what_cannot_work_is_refused(topic: Any, config: dict[str, Any], reason: str) -> None:
    """When it is made, with value, rule and remedy."""
    with pytest.raises(ConfigurationError) as refused:
        Journal(topic, config)
    assert reason in str(refused.value)


@pytest.mark.parametrize("source", [_JOURNAL, "^linear-retry.*"])
def test_a_consumer_must_not_consume_its_own_journal(fake: FakeKafka, source: str) -> None:
    """Every event would be a message, by name or by pattern."""
    with pytest.raises(ConfigurationError, match=r"linear-retry\.journal.*writes its"):
        _journaling(fake, source)


def test_nor_one_that_is_assigned_all_the_same(fake: FakeKafka) -> None:
    """librdkafka's patterns are not quite Python's: what is assigned in the end is looked at."""
    consumer = _journaling(fake)

    def handle(message: Message) -> None:
        fake.assign(fake.consumers[-1], [(_JOURNAL, 0)])
        if message.topic() == _JOURNAL:
            consumer.stop()

    with pytest.raises(ConfigurationError, match="to which this consumer writes"), consumer:
        consumer.run(handle)


def test_the_letters_have_another_topic(fake: FakeKafka) -> None:
    """A journal among the dead letters would be read as letters."""
    with pytest.raises(
        ConfigurationError, match="is the topic for dead letters and for the journal"
    ):
        consumer_on(fake, listeners=[Journal(LETTERS)])
