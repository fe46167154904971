"""Operators' requests on a real broker."""

import random
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from linear_retry import DeadLetters, LinearConsumer, events
from linear_retry.kafka import Message
from linear_retry.testing import Place
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import Dependency, OutageError
from tests.scenarios.protocols import COOPERATIVE, both_protocols
from tests.scenarios.scene import Member, Scene

pytestmark = pytest.mark.broker

_HOUR_S = 3600.0


def _holding(group: Scene, dependency: Dependency, **options: Any) -> tuple[Member, Place]:
    """A member that would hold the first message for an hour."""
    dependency.down = True
    member = group.join("first", dependency, **options)
    opened = group.wait_for(events.CircuitOpened)
    assert _HOUR_S == opened.delay_s
    return member, opened.place


@both_protocols
def test_retry_now(scene: SceneFactory, protocol: dict[str, Any]) -> None:
    """The dependency is back: the held message is attempted at once, and the rest follows."""
    group, dependency = scene(strategy=[_HOUR_S], config=protocol), Dependency()
    group.produce(5)
    member, place = _holding(group, dependency)
    dependency.down = False
    assert member.consumer.retry_now(*place).result(10)
    group.wait_until_done()
    assert not member.consumer.retry_now(*place).result(10)
    member.stop()
    (retried,) = group.said(events.RetriedNow)
    assert _HOUR_S - 60 < retried.remaining_s <= _HOUR_S
    assert [] == group.dead_letters()
    assert [] == group.violations()


@pytest.mark.parametrize("transactional", [False, True])
def test_give_up(scene: SceneFactory, transactional: bool) -> None:
    """One message after another goes to the dead letters, with the operator's reason."""
    group, dependency = scene(strategy=[_HOUR_S]), Dependency()
    group.produce(4)
    letters = DeadLetters(group.letters, transactional=transactional)
    member, (topic, partition, _) = _holding(group, dependency, dead_letters=letters)
    for offset in range(3):
        group.wait_for(events.CircuitOpened, offset + 1)
        assert member.consumer.give_up(topic, partition, offset).result(20)
    group.wait_for(events.CircuitOpened, 4)
    dependency.down = False
    assert member.consumer.retry_now(topic, partition, 3).result(10)
    group.wait_until_done()
    member.stop()
    given_up = [("given-up", offset, 1) for offset in range(3)]
    found = [(one.reason, one.original_offset, one.failures) for one in group.dead_letters()]
    assert given_up == found
    assert [] == group.violations()


def test_pending_until_the_end(scene: SceneFactory) -> None:
    """The letter cannot be sent, and the consumer stops: the operator is told that it is not."""
    group, dependency = scene(strategy=[_HOUR_S]), Dependency()
    group.produce(2)
    short = DeadLetters(group.letters, config={"message.timeout.ms": 1000})
    member, place = _holding(group, dependency, dead_letters=short)
    group.kafka.delete_topic(group.letters)
    answer = member.consumer.give_up(*place)
    group.wait_for(events.DeadLetterFailed)
    assert not answer.done()
    member.stop()
    assert not answer.result(0)
    assert not member.consumer.give_up(*place).result(0)
    assert {(group.topic, 0): 0} == group.committed()
    assert [] == group.violations(finished=False)


class Operator:
    """Retries or gives up whatever is held, for as long as the consumer runs."""

    def __init__(self, consumer: LinearConsumer, seed: int) -> None:
        self.asked: list[tuple[str, Place, Future[bool]]] = []
        self._consumer = consumer
        self._dice = random.Random(seed)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._operate)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join(30)

    def told(self, how: str) -> set[Place]:
        """The places for which the answer was yes."""
        return {place for asked, place, answer in self.asked if asked == how and answer.result(0)}

    def _operate(self) -> None:
        while not self._ended.wait(0.02):
            for view in self._consumer.circuits.values():
                if view.offset is not None:
                    place = Place(view.topic or "", view.partition or 0, view.offset)
                    how = self._dice.choice(["retry_now", "retry_now", "give_up"])
                    self.asked.append((how, place, getattr(self._consumer, how)(*place)))


def test_four_operators(scene: SceneFactory) -> None:
    """Only they end the waits of an hour: everything is done, each is told the truth."""
    group = scene(3, strategy=[_HOUR_S] * 3, config=COOPERATIVE)
    dice = random.Random(3)
    for partition in range(3):
        group.produce(15, partition)

    def fails_at_times(_: Message) -> None:
        if dice.random() < 0.3:
            raise OutageError

    member = group.join("first", fails_at_times, scope="partition")
    operators = [Operator(member.consumer, seed) for seed in range(4)]
    group.wait_until_done()
    for operator in operators:
        operator.end()
    member.stop()
    told_retried = set().union(*(operator.told("retry_now") for operator in operators))
    told_given_up = set().union(*(operator.told("give_up") for operator in operators))
    assert told_retried == {_place(event) for event in group.said(events.RetriedNow)}
    letters = [event for event in group.said(events.DeadLettered) if event.reason == "given-up"]
    assert told_given_up == {_place(event) for event in letters}
    assert [] == group.violations()


def _place(event: events.RetriedNow | events.DeadLettered) -> Place:
    return event.place
