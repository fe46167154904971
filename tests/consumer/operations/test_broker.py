"""A client that sees no broker where others do is replaced."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from linear_retry import events
from linear_retry.consumer.operations.client_replacement import (
    CHECK_EVERY_S,
    BrokerWatchdog,
)
from linear_retry.scope import Partition
from tests.consumer.group import FakeGroup, Member, Protocol
from tests.consumer.joined_parts import Joined
from tests.consumer.misbehaviours.misbehaving import (
    all_protocols,
    emitted,
    ends_well,
    open_circuit,
    reading,
)

_UNSEEN = KafkaException(KafkaError(KafkaError._TRANSPORT))
_LATE = KafkaException(KafkaError(KafkaError._TIMED_OUT))
_LONG_ENOUGH_S = 60.0


class _Scene:
    """One consumer that only records, with one partition; others see a broker as `found` says."""

    def __init__(
        self, topics: Sequence[str] = ("orders",), *, config: dict[str, Any] | None = None
    ) -> None:
        self.joined, self.found = Joined({"group.protocol": "consumer", **(config or {})}), True
        self.asked = 0
        self.reported: list[KafkaError] = []
        self.renewals: list[str] = []
        self.broker_watchdog = BrokerWatchdog(
            self.joined.client,
            self.joined.assignment,
            topics,
            self.ask_brokers,
            self.reported.append,
            self.renewals.append,
        )

    def ask_brokers(self) -> Future[int]:
        self.asked += 1
        answer: Future[int] = Future()
        answer.set_result(3 if self.found else 0)
        return answer

    def for_so_long(self, seconds: float, sees: object) -> None:
        """The loop looks ten times a second; asked for topics, librdkafka does as `sees` says."""
        for _ in range(int(seconds * 10)):
            self.joined.librdkafka.answers["list_topics"] = sees
            if self.broker_watchdog.due_at_s <= self.joined.clock.now_s():
                self.broker_watchdog.tick()
            self.joined.clock.advance(0.1)


@pytest.mark.parametrize("sees", [None, _LATE])
def test_a_client_that_has_somebody_to_ask_is_left_alone(sees: object) -> None:
    """Whether the answer comes within the millisecond or not. Nobody else is asked."""
    scene = _Scene()
    scene.for_so_long(_LONG_ENOUGH_S, sees)
    assert [] == scene.renewals
    assert 0 == scene.asked


def test_one_that_sees_nobody_where_others_do_is_replaced() -> None:
    """It is said for how long it has been so."""
    scene = _Scene()
    scene.for_so_long(_LONG_ENOUGH_S, _UNSEEN)
    assert "it reached no broker for 30 s, and other clients did" == scene.renewals[0]


def test_while_nobody_sees_a_broker_it_is_not_replaced_and_that_is_reported() -> None:
    """They are down: a new client would see no more. As librdkafka would say it, if it does not."""
    scene = _Scene()
    scene.found = False
    scene.for_so_long(_LONG_ENOUGH_S, _UNSEEN)
    assert [] == scene.renewals
    assert {error.code() for error in scene.reported} == {KafkaError._ALL_BROKERS_DOWN}


@pytest.mark.parametrize("patience_ms", [1_000, 60_000])
def test_it_has_the_time_that_a_client_takes_to_connect_again(patience_ms: int) -> None:
    """Brokers are back, and others may see them first, by `reconnect.backoff.max.ms` and more."""
    scene = _Scene(config={"reconnect.backoff.max.ms": patience_ms})
    scene.found = False
    scene.for_so_long(_LONG_ENOUGH_S, _UNSEEN)
    scene.found = True
    scene.for_so_long(patience_ms / 1000, _UNSEEN)
    assert [] == scene.renewals
    scene.for_so_long(patience_ms / 1000 + 2 * CHECK_EVERY_S, _UNSEEN)
    assert scene.renewals


def test_one_that_sees_again_has_all_its_time_the_next_time() -> None:
    """What was counted before does not count."""
    scene = _Scene()
    for _ in range(10):
        scene.for_so_long(15, _UNSEEN)
        scene.for_so_long(CHECK_EVERY_S, _LATE)
    assert [] == scene.renewals


@pytest.mark.parametrize(
    ("topics", "owned", "asked"),
    [
        (["orders"], [], "orders"),
        (["^orders.*"], [("orders.eu", 0)], "orders.eu"),
        (["^orders.*", "refunds"], [], "refunds"),
        (["^orders.*"], [], None),
    ],
)
def test_one_topic_is_asked_about_where_one_is_known(
    topics: list[str], owned: list[Partition], asked: str | None
) -> None:
    """All of a large cluster's would be a burden every few seconds; a pattern is no topic."""
    scene = _Scene(topics)
    scene.joined.own(*owned)
    scene.broker_watchdog.tick()
    assert ("list_topics", (asked, 0.001)) == scene.joined.librdkafka.calls[-1]


def _goes_blind(group: FakeGroup, member: Member) -> None:
    """The group learns of it when its session has ended; the member is told, or it is not."""
    old = member.consumer
    group.fake.blind(old)
    while member.consumer is old:
        member.turn()


@all_protocols
def test_a_blind_member_comes_back_and_goes_on(protocol: Protocol) -> None:
    """It read, and all at once sees no broker: within a minute another client of its own has
    joined the group, and goes on where it was. Once it stayed outside for ever, without a word
    (librdkafka #5301)."""
    group = reading(protocol)
    (member,) = group.members
    began_s = group.fake.clock.now_s()
    _goes_blind(group, member)
    assert group.fake.clock.now_s() - began_s < 60
    group.share([0, 0])
    ends_well(group)
    assert 1 == len(emitted(member, events.ClientReplaced))
    assert 1 == len(emitted(member, events.Lost))


@all_protocols
def test_a_blind_member_without_partitions_comes_back(protocol: Protocol) -> None:
    """The group has counted it out already, and it was told so: there is nothing more to lose."""
    group = reading(protocol)
    (member,) = group.members
    group.fake.blind(member.consumer)
    group.fake.lose(member.consumer)
    member.turn()
    _goes_blind(group, member)
    group.share([0, 0])
    ends_well(group)
    assert 1 == len(emitted(member, events.Lost))


@all_protocols
def test_a_circuit_outlives_the_client(protocol: Protocol) -> None:
    """The dependency is down and the client goes blind: nothing is attempted before `retry_at`,
    and the strategy begins again, as with any loss."""
    group = open_circuit(protocol)
    (member,) = group.members
    _goes_blind(group, member)
    group.share([0, 0])
    ends_well(group)


def test_a_blind_member_that_is_stopped_closes() -> None:
    """It can tell nobody, and does not wait for anybody."""
    group = reading("eager")
    (member,) = group.members
    group.fake.blind(member.consumer)
    member.turn()
    began_s = group.fake.clock.now_s()
    group.leave(member)
    assert group.fake.clock.now_s() - began_s <= 10
    assert [events.Stopped(left_group=True)] == emitted(member, events.Stopped)
