"""A dead partition is revived, and a living one left alone."""

import logging
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from linear_retry.consumer.operations.stalled_partition import (
    JoiningWatchdog,
    StalledPartitionWatchdog,
)
from linear_retry.consumer.partitions.assignment import FIRST_TIMEOUT_S
from linear_retry.events import PartitionRevived
from linear_retry.retry.case import Failing, Held
from linear_retry.scope import Partition, Scope
from tests.consumer.group import GROUP
from tests.consumer.joined_parts import Joined
from tests.consumer.runners.async_life import Life
from tests.fake.cluster import FakeKafka

_P0, _P1 = ("orders", 0), ("orders", 1)


class _Ends:
    """Keeps each question; a test answers."""

    def __init__(self) -> None:
        self.asked: list[tuple[Partition, Future[int]]] = []

    def ask_end(self, partition: Partition) -> Future[int]:
        answer: Future[int] = Future()
        self.asked.append((partition, answer))
        return answer


class _Scene:
    """One owned partition, handled up to 5, silent for long, and asked about."""

    def __init__(self, *, ask: bool = True) -> None:
        self.joined, self.ends = Joined({"group.protocol": "consumer"}), _Ends()
        self.stalled_partitions = StalledPartitionWatchdog(
            *(self.joined.assignment, self.joined.read_ahead, self.joined.flow_control),
            self.ends.ask_end,
            lambda: True,
        )
        self.joined.read_ahead.dry = True
        self.joined.own(_P0, done=5)
        self.joined.clock.advance(FIRST_TIMEOUT_S)
        if ask:
            self.stalled_partitions.tick()

    def answer(self, end: int) -> None:
        self.ends.asked[-1][1].set_result(end)
        self.stalled_partitions.tick()

    def open_circuit(self) -> None:
        held = Held(Message(topic="orders", partition=0, offset=5), _P0, 5, epoch=1)
        self.joined.circuits.open(Scope(), Failing(held), self.joined.clock.now_s(), 60.0, 0)

    @property
    def revived(self) -> bool:
        revived = any(isinstance(event, PartitionRevived) for event in self.joined.happened)
        assert revived == ("incremental_assign" in self.joined.librdkafka.names)
        return revived


@pytest.mark.parametrize(("end", "revived"), [(4, False), (5, False), (6, True), (1_000_000, True)])
def test_only_a_partition_with_something_to_read_is_dead(end: int, revived: bool) -> None:
    """The broker's end beyond our next offset tells a dead partition from an idle one."""
    scene = _Scene()
    scene.answer(end)
    assert revived == scene.revived


def test_it_is_revived_at_its_next_offset() -> None:
    """Unassigned and assigned again, where we are; the event says so."""
    scene = _Scene()
    scene.answer(6)
    calls = [call for call in scene.joined.librdkafka.calls if "assign" in call[0]]
    assert ("incremental_assign", [(*_P0, 5)]) == calls[-1]
    assert [
        PartitionRevived(*_P0, offset=5, reason="it has messages, but delivered none")
    ] == scene.joined.happened


def test_a_partition_that_has_not_been_read_yet_may_be_dead_too() -> None:
    """Nothing delivered and nothing known: any message on the broker is one to read."""
    scene = _Scene(ask=False)
    scene.joined.offsets.begin([_P0])
    scene.stalled_partitions.tick()
    scene.answer(1)
    assert scene.revived


def test_it_is_asked_only_about_what_is_silent_for_long_and_once() -> None:
    """Not before patience ends, not twice while the answer is awaited, not about what speaks."""
    scene = _Scene()
    scene.joined.own(_P1)
    scene.joined.clock.advance(3.0)
    scene.stalled_partitions.tick()
    assert [_P0] == [partition for partition, _ in scene.ends.asked]
    scene.joined.clock.advance(2.0)
    scene.joined.assignment.note_delivered(_P0)
    scene.stalled_partitions.tick()
    assert [_P0, _P1] == [partition for partition, _ in scene.ends.asked]


def test_what_an_open_circuit_stops_is_silent_for_a_reason() -> None:
    """Paused partitions deliver nothing: neither asked about nor revived."""
    scene = _Scene(ask=False)
    scene.open_circuit()
    scene.stalled_partitions.tick()
    assert [] == scene.ends.asked


@pytest.mark.parametrize("change", ["spoken", "revoked", "came back", "stopped"])
def test_an_answer_that_comes_too_late_changes_nothing(change: str) -> None:
    """It has spoken, gone, come back in another epoch or been stopped since the question."""
    scene = _Scene()
    match change:
        case "spoken":
            scene.joined.assignment.note_delivered(_P0)
        case "revoked":
            scene.joined.assignment.drop([_P0])
        case "came back":
            scene.joined.assignment.drop([_P0])
            scene.joined.assignment.take([_P0])
        case _:
            scene.open_circuit()
    scene.answer(1_000)
    assert not scene.revived


def test_without_an_answer_it_is_asked_again_later() -> None:
    """A broker that is down says nothing about the partition: patience, and another question."""
    scene = _Scene()
    scene.ends.asked[0][1].set_exception(KafkaException(KafkaError(KafkaError._TRANSPORT)))
    scene.stalled_partitions.tick()
    assert not scene.revived
    scene.joined.clock.advance(9.9)
    scene.stalled_partitions.tick()
    assert 1 == len(scene.ends.asked)
    scene.joined.clock.advance(0.1)
    scene.stalled_partitions.tick()
    assert 2 == len(scene.ends.asked)


def test_it_is_said_as_long_as_it_waits() -> None:
    """Every ten seconds; a later wait is counted from when it was last seen in its group."""
    now_s, joined, said = [100.0], [False], list[float]()
    watchdog = JoiningWatchdog(lambda: now_s[0], lambda: joined[0], said.append)
    looks = ((110.0, False), (121.0, False), (131.0, True), (141.0, True), (151.0, False))
    for at_s, is_in in looks:
        assert watchdog.due_at_s <= at_s
        now_s[0], joined[0] = at_s, is_in
        watchdog.tick()
    assert [10.0, 21.0, 10.0] == said


def test_a_member_that_is_given_nothing_yet(caplog: pytest.LogCaptureFixture) -> None:
    """The bug: after "started" nothing was logged for as long as a rebalance took, which may be
    `max.poll.interval.ms` of another member."""
    caplog.set_level(logging.INFO, "linear_retry")
    fake = FakeKafka(balanced=False)
    fake.create_topic("orders", 1)
    fake.create_topic("orders.dlq", 1)
    life = Life(fake)
    fake.clock.at(25, life.consumer.stop)
    with life.consumer:
        life.consumer.run(print)
    waited = [one for one in caplog.messages if one.startswith("joining the group: ")]
    member = f"member {life.consumer.member} has waited for group {GROUP}"
    assert [f"joining the group: {member} for {seconds} s" for seconds in (10, 20)] == waited
