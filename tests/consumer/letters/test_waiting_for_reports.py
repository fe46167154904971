"""The wait for an acknowledgement: how long it lasts, and for whom."""

from collections.abc import Callable

import pytest
from confluent_kafka import Message

from linear_retry.consumer.letters.publisher import STOP_GRACE_S, AckWait
from linear_retry.consumer.ownership.stop import StopFlag
from linear_retry.retry.case import Held
from tests.consumer.joined_parts import Joined, driven

_P0 = ("orders", 0)


class _Scene:
    """One owned partition, a message of which has a letter on its way."""

    def __init__(self) -> None:
        self.joined = Joined({"max.poll.interval.ms": 90_000, "session.timeout.ms": 45_000})
        self.joined.own(_P0)
        epoch = self.joined.assignment.epochs.get(_P0) or 0
        self.held = Held(Message(topic="orders", partition=0, offset=5), _P0, 5, epoch)
        self.began_s = self.joined.clock.now_s()
        self.polled_s: list[float] = []
        self.stop = StopFlag()

    def wait(self, done: Callable[[], bool], meanwhile: Callable[[], object] = list) -> bool:
        def poll(_: bool) -> None:
            if self.joined.clock.now_s() >= self.joined.read_ahead.deadline_s:
                self.polled_s.append(self.joined.clock.now_s())
                self.joined.librdkafka.answers["consume"] = []
                self.joined.read_ahead.touch()
                meanwhile()

        wait = AckWait(
            *(self.joined.clock, self.joined.assignment.epochs, self.stop),
            answer_within_s=30.0,
        )
        return driven(wait.wait_for(done, self.held, self.advance), poll)

    def advance(self, seconds: float) -> None:
        self.joined.clock.advance(seconds)
        assert self.joined.clock.now_s() < self.began_s + 300, "it would wait for ever"

    def goes_and_comes_back(self) -> None:
        self.joined.assignment.drop([_P0])
        self.joined.own(_P0)


def test_a_partition_that_went_and_came_back() -> None:
    """Is another's life of it: who has it now reads the message again, and a letter of the life
    before is not awaited."""
    scene = _Scene()
    assert not scene.wait(lambda: False, scene.goes_and_comes_back)
    assert 1 == len(scene.polled_s)


def test_the_consumer_is_polled() -> None:
    """Once a second, as long as it takes; then it is given up."""
    scene = _Scene()
    assert scene.wait(lambda: False)
    assert 30.0 == pytest.approx(scene.joined.clock.now_s() - scene.began_s, abs=0.3)
    assert 24 <= len(scene.polled_s) <= 31


def test_a_stop() -> None:
    """An answer is waited for a second then."""
    scene = _Scene()
    scene.stop.ask()
    assert not scene.wait(lambda: False)
    assert STOP_GRACE_S == pytest.approx(scene.joined.clock.now_s() - scene.began_s, abs=0.3)
