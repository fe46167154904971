"""The lag, whatever is paused here."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import pytest

from linear_retry import LinearConsumer, Strategy
from linear_retry.consumer.operations.lag import Lag
from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.offsets import Offsets
from linear_retry.consumer.partitions.read_ahead import ReadAhead
from linear_retry.kafka import KafkaError, KafkaException, Message
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.consumer.settings import consumer_settings
from linear_retry.scope import Partition
from tests.consumer.group import TOPIC, OutageError, PoisonError, consumer_on
from tests.consumer.joined_parts import LEAST
from tests.fake.cluster import FakeKafka

_P0, _P1 = ("orders", 0), ("orders", 1)


@dataclass
class _Brokers:
    """What the brokers would say: None, or no entry, is no answer."""

    committed: dict[Partition, int] | None = field(default_factory=dict)
    ends: dict[Partition, int] = field(default_factory=dict)
    beginnings: dict[Partition, int] = field(default_factory=dict)
    refuses: set[Partition] = field(default_factory=set)
    closed: int = 0

    def ask(self, partitions: Sequence[Partition], timeout_s: float) -> dict[Partition, int] | None:
        return None if self.committed is None else dict(self.committed)

    def ask_ends(self, partitions: Sequence[Partition]) -> dict[Partition, Future[int]]:
        return {key: self._answer(key, self.ends) for key in partitions}

    def ask_beginnings(self, partitions: Sequence[Partition]) -> dict[Partition, Future[int]]:
        return {key: self._answer(key, self.beginnings) for key in partitions}

    def close(self) -> None:
        self.closed += 1

    def _answer(self, key: Partition, known: dict[Partition, int]) -> Future[int]:
        future: Future[int] = Future()
        if key in self.refuses:
            future.set_exception(KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
        elif key in known:
            future.set_result(known[key])
        return future


class _Asked:
    def __init__(self, *owned: Partition, reset: str = "earliest") -> None:
        self.brokers = _Brokers()
        self.assignment, self.offsets = Assignment(lambda: 0.0), Offsets()
        self.assignment.take(owned)
        self.offsets.begin(owned)
        settings = consumer_settings(LEAST | {"auto.offset.reset": reset})
        brokers: Any = self.brokers
        self.read_ahead = ReadAhead(
            cast(Client, None),
            FakeKafka().clock,
            lambda: 0,
            max_poll_interval_s=300,
            session_timeout_s=45,
        )
        self.lag = Lag(settings, self.assignment, self.offsets, self.read_ahead, brokers, brokers)

    def lags(self) -> dict[Partition, int]:
        return {key: backlog.lag for key, backlog in self.lag.ask(0.0).items()}


def test_from_what_is_committed_to_the_end() -> None:
    """Of what is ours; what the group has committed elsewhere is others' concern."""
    asked = _Asked(_P0)
    asked.brokers.committed = {_P0: 40, _P1: 1}
    asked.brokers.ends = {_P0: 100, _P1: 100}
    assert {_P0: 60} == asked.lags()


def test_where_nothing_is_committed_it_begins_where_we_do() -> None:
    """At what is done here; else where the partition begins, which retention may have moved."""
    asked = _Asked(_P0, _P1)
    asked.offsets.done({_P0: 7})
    asked.brokers.ends = {_P0: 10, _P1: 10}
    asked.brokers.beginnings = {_P0: 0, _P1: 4}
    assert {_P0: 3, _P1: 6} == asked.lags()


@pytest.mark.filterwarnings("ignore:auto.offset.reset=latest")
def test_a_group_that_begins_at_the_end_has_nothing_to_read() -> None:
    """With auto.offset.reset=latest, and nothing committed."""
    asked = _Asked(_P0, reset="latest")
    asked.brokers.ends, asked.brokers.beginnings = {_P0: 10}, {_P0: 0}
    assert {_P0: 0} == asked.lags()


def test_an_end_below_what_is_committed_is_a_negative_lag() -> None:
    """The log was cut, or is another topic's: a 0 would hide the only sign of it.

    No commit makes it negative: the ends are asked later.
    """
    asked = _Asked(_P0)
    asked.brokers.committed, asked.brokers.ends = {_P0: 12}, {_P0: 10}
    assert {_P0: -2} == asked.lags()


def test_without_an_answer_there_is_no_figure() -> None:
    """A figure that is made up would be believed: a partition without an answer is left out."""
    asked = _Asked(_P0, _P1)
    asked.brokers.committed = {_P0: 1, _P1: 1}
    asked.brokers.ends = {_P0: 3}
    assert {_P0: 2} == asked.lags()
    asked.brokers.refuses = {_P0}
    assert {} == asked.lags()
    asked.brokers.refuses, asked.brokers.committed = set(), None
    assert {} == asked.lags()


def test_closed_it_asks_nothing() -> None:
    """Both handles are dropped, once."""
    asked = _Asked(_P0)
    asked.brokers.committed, asked.brokers.ends = {_P0: 1}, {_P0: 3}
    asked.lag.close()
    assert {} == asked.lags()
    assert 2 == asked.brokers.closed


@pytest.mark.parametrize(
    ("committed", "end", "lag"),
    [
        (10, 12, 0),  # done: two markers are left
        (9, 12, 1),  # the last message is held
        (4, 12, 6),
        (11, 12, 0),  # committed in the midst of them
        (12, 12, 0),
        (10, 15, 3),  # more has come since
        (12, 15, 3),
        (9, 11, 1),  # an end from before ours
    ],
)
def test_what_is_seen_to_be_no_message_does_not_count(committed: int, end: int, lag: int) -> None:
    """From 10 to 12 the consumer has seen the end follow, and no message."""
    asked = _Asked(_P0)
    asked.offsets.note_tail(_P0, 10, 12)
    asked.brokers.committed, asked.brokers.ends = {_P0: committed}, {_P0: end}
    assert {_P0: lag} == asked.lags()


def test_what_is_done_and_not_committed_yet_is_not_unfinished() -> None:
    """A commit goes out once a second; the brokers' end may be older than what is done here."""
    asked = _Asked(_P0)
    asked.brokers.committed, asked.brokers.ends = {_P0: 4}, {_P0: 10}
    for done, unfinished in ((7, 3), (12, 0)):
        asked.offsets.done({_P0: done})
        (backlog,) = asked.lag.ask(0.0).values()
        assert (6, unfinished) == (backlog.lag, backlog.unfinished)


def test_a_topic_that_was_made_again_has_another_tail() -> None:
    """Its offsets begin again: what was no message once may be one now."""
    asked = _Asked(_P0)
    asked.offsets.note_tail(_P0, 10, 12)
    asked.offsets.start_at(_P0, 0)
    asked.brokers.committed, asked.brokers.ends = {_P0: 9}, {_P0: 12}
    assert {_P0: 3} == asked.lags()


def _lag_of(consumer: LinearConsumer) -> int:
    return sum(consumer.lag().values())


def test_while_a_message_is_held(fake: FakeKafka) -> None:
    """Six messages, the first fails: six are left; three more come while all is paused: nine."""
    seen: list[int] = []
    calls: list[Message] = []
    consumer = consumer_on(fake, strategy=Strategy([30]))

    def look() -> None:
        seen.append(_lag_of(consumer))

    def handle(message: Message) -> None:
        calls.append(message)
        if len(calls) == 1:
            fake.clock.at(5, look)
            fake.clock.at(6, lambda: [fake.append(TOPIC, 1, b"more") for _ in range(3)])
            fake.clock.at(7, look)
            raise OutageError
        if len(calls) == 10:
            fake.clock.at(5, look)
            fake.clock.at(6, consumer.stop)

    assert {} == consumer.lag()
    with consumer:
        consumer.run(handle)
    assert {} == consumer.lag()
    assert [6, 9, 0] == seen


@pytest.mark.parametrize("answered", [True, False])
def test_an_end_that_comes_while_a_letter_is_awaited(fake: FakeKafka, answered: bool) -> None:
    """Its message counts until the letter is acknowledged and its offset committed, and the markers
    behind it do not: the end was heard."""
    fake.faults.delivery_s = 5.0
    if not answered:
        fake.faults.fail_delivery(KafkaError._MSG_TIMED_OUT)
    seen: list[int] = []
    calls: list[Message] = []
    consumer = consumer_on(fake)

    def handle(message: Message) -> None:
        calls.append(message)
        if len(calls) == 6:
            for log in fake.topics[TOPIC].partitions:
                fake.clock.at(1, partial(log.mark, 1))
            fake.clock.at(3, lambda: seen.append(_lag_of(consumer)))
            fake.clock.at(7.5, lambda: seen.append(_lag_of(consumer)))
            fake.clock.at(30, lambda: seen.append(_lag_of(consumer)))
            fake.clock.at(31, consumer.stop)
            raise PoisonError

    with consumer:
        consumer.run(handle)
    assert [1, 0 if answered else 1, 0] == seen
