"""The queues of lanes, and what is done of each partition."""

from collections.abc import Iterable
from typing import cast

import pytest
from confluent_kafka import Message

from linear_retry.consumer.lanes.lane_read_ahead import LaneReadAhead
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.consumer.messages import offset_of, partition_of
from linear_retry.kafka.consumer.second_reader import Part
from linear_retry.retry.case import Failing, Held
from linear_retry.retry.circuits import Circuits
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
    """A read-ahead, and the circuits of what is held."""

    def __init__(self, a: int = 0, b: int = 0, *, keys: str = "", **limits: int) -> None:
        """So many messages of a and b have arrived, or of a one with each of the `keys`."""
        self.circuits: Circuits[Message] = Circuits("test", pauses=False)
        self.read_ahead = LaneReadAhead(
            _lane_of,
            self.circuits,
            cast(Client, None),
            VirtualClock(),
            lambda: 1,
            max_poll_interval_s=300.0,
            session_timeout_s=45.0,
            **limits,
        )
        keyed = [_message(_A, n, key.encode()) for n, key in enumerate(keys)]
        self.arrived(*keyed, *(_message(_A, n) for n in range(a)))
        self.arrived(*(_message(_B, n) for n in range(b)))

    def arrived(self, *messages: Message) -> None:
        self.read_ahead.keep([*messages])
        self.read_ahead.sort(messages)

    def hold(self, lane: Scope) -> None:
        """The first message of a lane has failed."""
        (message,) = self.read_ahead.first(lane, 1)
        self.read_ahead.take_out([message])
        held = Held(message, lane.home, offset_of(message), 1)
        self.circuits.open(lane, Failing(held), 0.0, 60.0, 0)

    def recover(self, lane: Scope) -> None:
        """The message that is held succeeds at last."""
        circuit = self.circuits.get(lane)
        assert circuit is not None
        assert circuit.held is not None
        self.circuits.close(lane, 60.0)
        self.read_ahead.done([circuit.held.message])
        self.read_ahead.let_go(lane)

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
    scene.back(_LANE_A, done=1)
    scene.hold(_LANE_A)
    if not is_held:
        scene.circuits.close(_LANE_A, 0.0)
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


_KEY_A, _KEY_B = Scope(*_A, "a"), Scope(*_A, "b")


def _keyed(offsets: Iterable[int], key: bytes) -> list[Message]:
    return [_message(_A, offset, key) for offset in offsets]


def _crowded() -> _Scene:
    """A key is held at 0, more of it than may wait has come, and the other keys are done."""
    scene = _Scene(keys="a" + "ab" * 10, most_bytes=1)
    scene.ready()
    scene.back(_KEY_B, done=10)
    scene.read_ahead.give_back(_KEY_A)
    scene.hold(_KEY_A)
    assert scene.read_ahead.is_crowded(_A)
    scene.read_ahead.drop_waiting(_A)
    return scene


def _two_gaps() -> _Scene:
    """Two keys have recovered, of which all but the next message was dropped."""
    scene = _Scene(keys="ab" * 10, most_bytes=1)
    for lane in scene.ready():
        scene.read_ahead.give_back(lane)
        scene.hold(lane)
    scene.read_ahead.drop_waiting(_A)
    scene.recover(_KEY_A)
    scene.recover(_KEY_B)
    return scene


def test_what_waits_behind_a_held_message_is_dropped() -> None:
    """All but one, later ones too; the partition is read on, and begins where it did."""
    scene = _crowded()
    scene.arrived(*_keyed([21], b"a"), *_keyed([22], b"b"), *_keyed([23], b"a"))
    assert [_KEY_B] == scene.ready()
    scene.back(_KEY_B, done=1)
    progress = scene.read_ahead.progress(_A)
    assert progress is not None
    assert (23, [0]) == (progress.frontier, [offset_of(each) for each in progress.firsts.values()])
    assert not scene.read_ahead.is_above(_A, 1.0)
    assert 23 == scene.read_ahead.last_kept(_A)


def test_what_was_dropped_is_filled_in_once_its_key_has_recovered() -> None:
    """The last one before the gap waits: from there on nothing of the lane is done."""
    scene = _crowded()
    assert None is scene.read_ahead.next_gap()
    scene.recover(_KEY_A)
    assert [] == scene.ready()
    assert (_KEY_A, 3) == scene.read_ahead.next_gap()
    scene.arrived(*_keyed([21], b"b"))
    scene.read_ahead.fill(Part(_A, 3, 12, [*_keyed([3, 5], b"a"), *_keyed([4], b"b")]))
    scene.arrived(*_keyed([22], b"a"))
    assert [_KEY_A, _KEY_B] == scene.ready()
    assert [1, 3] == scene.offsets(_KEY_A)
    assert {_A: 5} == scene.back(_KEY_A, done=2)
    assert (_KEY_A, 12) == scene.read_ahead.next_gap()
    scene.read_ahead.fill(Part(_A, 12, 23, _keyed([13, 19, 22], b"a")))
    assert None is scene.read_ahead.next_gap()
    assert [_KEY_A] == scene.ready()
    assert [5, 13, 19, 22] == scene.offsets(_KEY_A)
    assert {_A: 21} == scene.back(_KEY_A, done=4)


def test_what_was_passed_over_is_not_filled_in() -> None:
    """Another group's replay, or what an owner before has done, is passed over once for all."""
    scene = _crowded()
    scene.read_ahead.keep(_keyed([21], b"a"))
    assert {_A: 0} == scene.read_ahead.pass_over(scene.read_ahead.messages.pop())
    scene.arrived(*_keyed([22], b"a"))
    scene.recover(_KEY_A)
    scene.read_ahead.fill(Part(_A, 3, 23, _keyed([3, 21, 22], b"a")))
    assert [1, 3, 22] == scene.offsets(_KEY_A)


def test_an_error_leaves_gaps_as_they_are() -> None:
    """What is in memory is sorted again, and what was dropped is still to be fetched."""
    scene = _crowded()
    scene.recover(_KEY_A)
    scene.read_ahead.invalidate()
    assert ([], (_KEY_A, 3)) == (scene.ready(), scene.read_ahead.next_gap())
    scene.read_ahead.forget(_A.__eq__)
    assert None is scene.read_ahead.next_gap()
    scene.read_ahead.fill(Part(_A, 3, 12, _keyed([3], b"a")))
    assert [] == scene.ready()


def test_lanes_with_a_gap_take_turns() -> None:
    """One with few messages in many would keep the others waiting."""
    scene = _two_gaps()
    first = scene.read_ahead.next_gap()
    assert first is not None
    assert first == scene.read_ahead.next_gap()
    scene.read_ahead.put_off(first[0])
    second = scene.read_ahead.next_gap()
    assert second is not None
    assert {_KEY_A, _KEY_B} == {first[0], second[0]}


def test_what_is_fetched_is_for_all_that_miss_it() -> None:
    """Many keys recover at once, and the partition is read once."""
    scene = _two_gaps()
    assert ((_KEY_A, 4), []) == (scene.read_ahead.next_gap(), scene.ready())
    part = [*_keyed([4, 6, 8], b"a"), *_keyed([5, 7, 9], b"b")]
    scene.read_ahead.fill(Part(_A, 4, 10, part))
    assert [_KEY_A, _KEY_B] == scene.ready()
    assert ([2, 4, 6], [3, 5, 7]) == (scene.offsets(_KEY_A), scene.offsets(_KEY_B))
