"""The queues of lanes, and what is done of each partition."""

from typing import cast

import pytest
from confluent_kafka import Message

from linear_retry.consumer.lanes.lane_read_ahead import LaneReadAhead
from linear_retry.consumer.partitions.read_ahead import offset_of, partition_of
from linear_retry.kafka.consumer.client import Client
from linear_retry.scope import Partition, Scope
from tests.fake.clock import VirtualClock

_A, _B = ("orders", 0), ("orders", 1)
_LANE_A, _LANE_B = Scope(*_A), Scope(*_B)


def _message(partition: Partition, offset: int, key: bytes | None = None) -> Message:
    return Message(topic=partition[0], partition=partition[1], offset=offset, key=key)


def _lane_of(message: Message) -> Scope:
    """A lane for each key; without one it is the partition."""
    key = message.key()
    return Scope(*partition_of(message), None if key is None else key.decode())


class _Scene:
    """A read-ahead, and the offsets of partition a that a circuit holds."""

    def __init__(self, a: int = 0, b: int = 0, *, keys: str = "") -> None:
        """So many messages of a and b have arrived, or of a one with each of the `keys`."""
        self.held: set[int] = set()
        self.read_ahead = LaneReadAhead(
            _lane_of,
            lambda _, offset: offset in self.held,
            cast(Client, None),
            VirtualClock(),
            lambda: 1,
            max_poll_interval_s=300.0,
            session_timeout_s=45.0,
        )
        keyed = [_message(_A, n, key.encode()) for n, key in enumerate(keys)]
        self.arrived(*keyed, *(_message(_A, n) for n in range(a)))
        self.arrived(*(_message(_B, n) for n in range(b)))

    def arrived(self, *messages: Message) -> None:
        self.read_ahead.keep([*messages])
        self.read_ahead.sort(messages)

    def offsets(self, lane: Scope) -> list[int]:
        return [offset_of(message) for message in self.read_ahead.first(lane, 100)]

    def ready(self) -> list[Scope]:
        """Those that get a turn, and are handed over whole."""
        found = []
        while (lane := self.read_ahead.next_ready()) is not None:
            found.append(lane)
            self.read_ahead.hand_over(lane, len(self.offsets(lane)))
        return found

    def back(self, lane: Scope, done: int, failed: int = 0) -> dict[Partition, int]:
        """What a worker had comes back; returns where each partition is done to."""
        read_ahead = self.read_ahead
        assert read_ahead.give_back(lane)
        messages = read_ahead.first(lane, done + failed)
        read_ahead.take_out(messages)
        found = read_ahead.done(messages[:done])
        read_ahead.let_go(lane)
        return dict(found)


def test_each_partition_has_its_turn() -> None:
    """One that a worker has is not ready; once it is back it comes after those that waited."""
    scene = _Scene(a=4, b=4)
    read_ahead = scene.read_ahead
    assert _LANE_A == read_ahead.next_ready()
    read_ahead.hand_over(_LANE_A, 2)
    read_ahead.let_go(_LANE_A)
    assert _LANE_B == read_ahead.next_ready()
    assert None is read_ahead.next_ready()
    read_ahead.let_go(_LANE_B)
    scene.back(_LANE_A, done=2)
    assert [_LANE_B, _LANE_A] == scene.ready()


def test_the_longest_waiting_lane_of_a_partition_comes_first() -> None:
    """However often the others have had a turn: little above what is undone is done."""
    scene = _Scene(keys="abcab")
    a, b, c = (_lane_of(_message(_A, 0, key)) for key in (b"a", b"b", b"c"))
    assert [a, b, c] == scene.ready()
    scene.back(b, done=1)
    scene.back(c, done=1)
    scene.back(a, done=1)
    assert [a, b] == scene.ready()


def test_what_a_worker_did_not_take_is_still_the_next() -> None:
    """A work ends early, after a failure or in time for a poll: nothing behind that is lost."""
    scene = _Scene(a=5)
    scene.ready()
    assert {_A: 2} == scene.back(_LANE_A, done=2)
    assert [2, 3, 4] == scene.offsets(_LANE_A)


def test_done_is_what_everything_before_is() -> None:
    """Whatever is done above a message that is not: that one is where the next owner begins."""
    scene = _Scene(keys="abca")
    a, b, c = scene.ready()
    assert {_A: 0} == scene.back(c, done=1)
    assert {_A: 0} == scene.back(b, done=1)
    assert {_A: 4} == scene.back(a, done=2)
    assert (None, []) == (scene.read_ahead.last_kept(_A), [*scene.read_ahead.waiting])


def test_fetched_again_from_behind_what_is_in_memory() -> None:
    """Else it would be delivered, and handled, a second time."""
    scene = _Scene(a=5, b=5)
    scene.ready()
    scene.back(_LANE_B, done=5)
    scene.read_ahead.drop(lambda _: True)
    scene.read_ahead.invalidate()
    assert ([0, 1, 2, 3, 4], []) == (scene.offsets(_LANE_A), scene.offsets(_LANE_B))
    assert (4, 4) == (scene.read_ahead.last_kept(_A), scene.read_ahead.last_of(_A))
    assert (None, None) == (scene.read_ahead.last_kept(_B), scene.read_ahead.last_of(_B))


@pytest.mark.parametrize("is_held", [True, False])
def test_what_an_error_left_out_is_the_next_again(*, is_held: bool) -> None:
    """It was taken out of its lane to be decided on, and nothing was; one that is held stays so."""
    scene = _Scene(a=4)
    scene.ready()
    scene.back(_LANE_A, done=1, failed=1)
    scene.held = {1} if is_held else set()
    scene.read_ahead.invalidate()
    assert [*range(1 + is_held, 4)] == scene.offsets(_LANE_A)
    assert [_LANE_A] == scene.ready()


def test_what_a_worker_has_is_with_it_after_an_error() -> None:
    """Sorted again, its lane is not ready: another worker would begin the same messages."""
    scene = _Scene(a=4)
    scene.ready()
    scene.read_ahead.invalidate()
    assert [] == scene.ready()
    scene.back(_LANE_A, done=4)
    assert [] == scene.ready()


def test_a_partition_that_is_gone_leaves_nothing() -> None:
    """When it returns, its first message is the committed one, whatever a worker still has."""
    scene = _Scene(a=5)
    read_ahead = scene.read_ahead
    scene.ready()
    read_ahead.keep([_message(_A, 5)])
    read_ahead.forget(_A.__eq__)
    assert (None, []) == (read_ahead.last_kept(_A), read_ahead.messages)
    assert not read_ahead.give_back(_LANE_A)
    read_ahead.take_out([_message(_A, 0)])
    assert [] == scene.ready()
