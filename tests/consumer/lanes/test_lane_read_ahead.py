"""The queues of partitions that are handled side by side."""

from typing import cast

from confluent_kafka import Message

from linear_retry.consumer.lanes.lane_read_ahead import Lane, LaneReadAhead
from linear_retry.consumer.partitions.read_ahead import offset_of
from linear_retry.kafka.consumer.client import Client
from linear_retry.scope import Partition
from tests.fake.clock import VirtualClock

_A, _B = ("orders", 0), ("orders", 1)


def _read_ahead(**offsets: int) -> LaneReadAhead:
    """With so many messages of a and b."""
    made = LaneReadAhead(
        lambda _: Lane(),
        cast(Client, None),
        VirtualClock(),
        lambda: 1,
        max_poll_interval_s=300.0,
        session_timeout_s=45.0,
    )
    for key, count in ((_A, offsets.get("a", 0)), (_B, offsets.get("b", 0))):
        made.keep([Message(topic=key[0], partition=key[1], offset=n) for n in range(count)])
    return made


def _offsets(read_ahead: LaneReadAhead, partition: Partition) -> list[int]:
    return [offset_of(message) for message in read_ahead.first(partition, 100)]


def test_each_partition_has_its_turn() -> None:
    """One that a worker has is not ready; once it is back it comes after those that waited."""
    read_ahead = _read_ahead(a=4, b=4)
    assert [_A, _B] == read_ahead.ready()
    read_ahead.hand_over(_A, 2)
    assert [_B] == read_ahead.ready()
    read_ahead.give_back(_A)
    assert [_B, _A] == read_ahead.ready()


def test_what_a_worker_did_not_take_is_still_the_next() -> None:
    """A work ends early, after a failure or in time for a poll: nothing behind that is lost."""
    read_ahead = _read_ahead(a=5)
    read_ahead.hand_over(_A, 3)
    read_ahead.give_back(_A)
    read_ahead.take_out(read_ahead.first(_A, 2))
    assert [2, 3, 4] == _offsets(read_ahead, _A)


def test_fetched_again_from_behind_what_a_worker_has() -> None:
    """Else a worker's messages would be delivered, and handled, a second time."""
    for forget in (lambda it: it.drop(lambda _: True), LaneReadAhead.invalidate):
        read_ahead = _read_ahead(a=5, b=5)
        read_ahead.hand_over(_A, 2)
        forget(read_ahead)
        assert ([0, 1], []) == (_offsets(read_ahead, _A), _offsets(read_ahead, _B))
        assert (1, 1) == (read_ahead.last_kept(_A), read_ahead.last_of(_A))
        assert (None, None) == (read_ahead.last_kept(_B), read_ahead.last_of(_B))


def test_a_partition_that_is_gone_leaves_nothing() -> None:
    """When it returns, its first message is the committed one, whatever a worker still has."""
    read_ahead = _read_ahead(a=5)
    read_ahead.hand_over(_A, 2)
    read_ahead.forget(_A.__eq__)
    assert None is read_ahead.last_kept(_A)
    read_ahead.give_back(_A)
    read_ahead.take_out([Message(topic=_A[0], partition=_A[1], offset=0)])
    assert [] == read_ahead.ready()
