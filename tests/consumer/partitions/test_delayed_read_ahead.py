"""The read-ahead of retry topics: what waits in it, until when, and what it drops."""

from math import inf
from typing import cast

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message

from linear_retry.consumer.partitions.delayed_read_ahead import DelayedReadAhead, delayed_queues
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.consumer.messages import offset_of
from linear_retry.scope import Partition
from tests.fake.clock import VirtualClock

_SHORT, _LONG = ("orders.retry.5s", 0), ("orders.retry.1h", 0)
_DELAYS_MS = {_SHORT[0]: 5_000, _LONG[0]: 3_600_000}


class _Scene:
    """A read-ahead, and its clock."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.read_ahead = DelayedReadAhead(
            delayed_queues(_DELAYS_MS.get, self.clock),
            cast(Client, None),
            self.clock,
            lambda: 1,
            max_poll_interval_s=300.0,
            session_timeout_s=45.0,
        )

    def keep(self, partition: Partition, *offsets: int, ago_s: float = 0.0) -> None:
        """Messages that the broker wrote so long ago."""
        at_ms = self.clock.utc_ms() - round(ago_s * 1000)
        stamp = (TIMESTAMP_LOG_APPEND_TIME, at_ms)
        topic, number = partition
        self.read_ahead.keep(
            [Message(topic=topic, partition=number, offset=n, timestamp=stamp) for n in offsets]
        )

    def released(self) -> list[tuple[str | None, int]]:
        self.read_ahead.release()
        return [(message.topic(), offset_of(message)) for message in self.read_ahead.messages]


def test_nothing_is_handed_over_before_its_time() -> None:
    """Each partition by itself, and the wait is what is left of its topic's delay."""
    scene = _Scene()
    scene.keep(_LONG, 0)
    scene.keep(_SHORT, 7, ago_s=2.0)
    begun_s = scene.clock.now_s()
    assert begun_s + 3.0 == scene.read_ahead.next_due_at_s
    scene.clock.advance(2.999)
    assert [] == scene.released()
    scene.clock.advance(0.001)
    assert [(_SHORT[0], 7)] == scene.released()
    assert begun_s + 3600 == scene.read_ahead.next_due_at_s


def test_what_is_due_comes_in_its_order() -> None:
    """The earliest partition first, and within each one offset after the other."""
    scene = _Scene()
    scene.keep(_LONG, 0, 1, ago_s=3_598.0)
    scene.keep(_SHORT, 4, 5, ago_s=4.0)
    scene.clock.advance(60)
    expected = [(_SHORT[0], 4), (_SHORT[0], 5), (_LONG[0], 0), (_LONG[0], 1)]
    assert expected == scene.released()
    assert inf == scene.read_ahead.next_due_at_s


@pytest.mark.parametrize("step_s", [-86_400.0, 86_400.0])
def test_the_wall_clock_steps(step_s: float) -> None:
    """What is in memory waits on the monotonic clock."""
    scene = _Scene()
    scene.keep(_SHORT, 0, 1)
    scene.clock.step_wall(step_s)
    scene.clock.advance(4.999)
    assert [] == scene.released()
    scene.clock.advance(0.001)
    assert 2 == len(scene.released())


def test_written_in_the_future() -> None:
    """By a clock that is behind the broker's: the delay from now on, and for all at once."""
    scene = _Scene()
    scene.keep(_SHORT, 0, 1, 2, ago_s=-3_600.0)
    scene.clock.advance(5.0)
    assert 3 == len(scene.released())


def test_where_reading_goes_on() -> None:
    """Behind the last in memory, whether it is due or not."""
    scene = _Scene()
    assert None is scene.read_ahead.last_kept(_SHORT)
    scene.keep(_SHORT, 3, 4, ago_s=5.0)
    scene.released()
    assert (4, 4) == (scene.read_ahead.last_kept(_SHORT), scene.read_ahead.last_of(_SHORT))
    scene.keep(_SHORT, 5)
    assert (5, 5) == (scene.read_ahead.last_kept(_SHORT), scene.read_ahead.last_of(_SHORT))


def test_what_is_done_goes() -> None:
    """Fetched again while its letter was awaited: up to there it is not handed over again."""
    scene = _Scene()
    scene.keep(_SHORT, 0, 1, 2)
    scene.read_ahead.drop_through(_SHORT, 1)
    scene.clock.advance(5.0)
    assert [(_SHORT[0], 2)] == scene.released()


@pytest.mark.parametrize("how", ["drop", "invalidate", "drop_through"])
def test_nothing_is_left(how: str) -> None:
    """Of a partition that is revoked, fetched again, or done."""
    scene = _Scene()
    scene.keep(_SHORT, 0, 1)
    match how:
        case "drop":
            scene.read_ahead.drop(_SHORT.__eq__)
        case "invalidate":
            scene.read_ahead.invalidate()
        case _:
            scene.read_ahead.drop_through(_SHORT, 1)
    assert ([], inf) == (scene.released(), scene.read_ahead.next_due_at_s)
    assert 0 == scene.read_ahead.waiting_messages
