"""A consumer whose program keeps the next offsets itself: each assignment starts from those."""

from collections.abc import Mapping, Sequence
from typing import get_args

import pytest

from linear_retry import DataLossError, events
from linear_retry.scope import Partition
from tests.consumer.group import GROUP, TOPIC, FakeGroup, Protocol
from tests.consumer.misbehaviours.misbehaving import begun, emitted, until

_ONE, _TWO = (TOPIC, 0), (TOPIC, 1)
_NO_LOSS = {"auto.offset.reset": "error"}


class _Database:
    """The next offsets, outside of Kafka; `asked` has the partitions of each question."""

    def __init__(self, positions: Mapping[Partition, int]) -> None:
        self.positions = dict(positions)
        self.asked: list[list[Partition]] = []
        self.not_yet: set[Partition] = set()

    def __call__(self, partitions: Sequence[Partition]) -> Mapping[Partition, int | None]:
        self.asked.append(list(partitions))
        known = [each for each in partitions if each not in self.not_yet]
        return {each: self.positions.get(each) for each in known}


def _group(database: _Database, protocol: Protocol = "eager", **config: str) -> FakeGroup:
    """Ten messages in each of two partitions."""
    group = FakeGroup(
        protocol=protocol, partitions=2, config=dict(config), start_positions=database
    )
    for number in (0, 1):
        group.produce(number, 10)
    return group


def _first_attempts(group: FakeGroup) -> dict[Partition, int]:
    return {place[:2]: place.offset for _, place in reversed(begun(group))}


@pytest.mark.parametrize("protocol", get_args(Protocol))
@pytest.mark.parametrize("committed", [None, 0, 7])
def test_they_are_where_reading_starts(protocol: Protocol, committed: int | None) -> None:
    """Whatever the group has committed: nothing, less, or more. A partition without a position
    starts where the group has left off."""
    database = _Database({_ONE: 4})
    group = _group(database, protocol)
    if committed is not None:
        group.fake.group(GROUP).update({_ONE: committed, _TWO: committed})
    member = group.join()
    group.share([0, 0])
    group.finish()
    assert [] == emitted(member, events.PartitionRevived)
    assert {_ONE: 4, _TWO: committed or 0} == _first_attempts(group)
    assert {_ONE: 10, _TWO: 10} == group.fake.group(GROUP)
    assert [[_ONE, _TWO]] == database.asked


@pytest.mark.parametrize("protocol", get_args(Protocol))
def test_after_a_rebalance_it_is_asked_again(protocol: Protocol) -> None:
    """What comes back starts from the position of then, even if it has gone back."""
    database = _Database({_ONE: 4})
    group = _group(database, protocol)
    group.join()
    group.share([0, 0])
    until(group, group.all_done)
    group.fake.lose(group.members[0].consumer)
    group.turn(5)
    database.positions = {_ONE: 2}
    before = len(begun(group))
    group.share([0, 0])
    until(group, lambda: len(begun(group)) >= before + 8)
    assert list(range(2, 10)) == [place.offset for _, place in begun(group)[before:]]


@pytest.mark.parametrize("protocol", get_args(Protocol))
def test_what_is_not_known_yet_is_asked_again(protocol: Protocol) -> None:
    """Nothing of it is read until then, and what the other partition has is handled meanwhile."""
    database = _Database({_ONE: 4})
    database.not_yet = {_ONE}
    group = _group(database, protocol)
    group.join()
    group.share([0, 0])
    until(group, lambda: group.fake.group(GROUP).get(_TWO) == 10)
    assert {_TWO: 0} == _first_attempts(group)
    database.not_yet.clear()
    group.finish()
    assert {_ONE: 4, _TWO: 0} == _first_attempts(group)
    assert [[_ONE, _TWO], [_ONE]] == [database.asked[0], database.asked[-1]]


@pytest.mark.parametrize("committed", [None, 40])
def test_what_the_group_has_committed_is_no_loss(committed: int | None) -> None:
    """Nothing, or an offset that is gone: until its position is known, nothing is concluded."""
    database = _Database({_ONE: 4, _TWO: 0})
    database.not_yet = {_ONE}
    group = _group(database, "eager", **_NO_LOSS)
    group.fake.faults.race(_ONE)
    if committed is not None:
        group.fake.group(GROUP).update({_ONE: committed})
    group.join()
    group.share([0, 0])
    until(group, lambda: group.fake.group(GROUP).get(_TWO) == 10)
    database.not_yet.clear()
    until(group, lambda: _first_attempts(group) == {_ONE: 4, _TWO: 0})


def test_a_position_is_the_next_offset_from_the_start() -> None:
    """It is committed without a message: others see the lag that there is."""
    group = _group(_Database({_ONE: 10, _TWO: 10}))
    group.join()
    group.share([0, 0])
    until(group, group.all_done)
    assert [] == begun(group)


@pytest.mark.parametrize("protocol", get_args(Protocol))
def test_an_offset_that_retention_has_removed(protocol: Protocol) -> None:
    """It is an error that names both offsets, if no loss is accepted; nothing is read, and no other
    position committed."""
    group = _group(_Database({_ONE: 4, _TWO: 4}), protocol, **_NO_LOSS)
    group.fake.delete_records(TOPIC, 0, 6)
    group.join()
    group.share([0, 0])
    with pytest.raises(DataLossError, match=r"orders\[0\]@4.* begin at offset 6 and end before 10"):
        until(group, group.all_done)
    assert 4 == group.fake.group(GROUP).get(_ONE, 4)
    assert [] == [place for _, place in begun(group) if place[:2] == _ONE]


def test_an_offset_beyond_the_end() -> None:
    """So is one that the topic does not have yet: it was deleted and created again."""
    group = _group(_Database({_ONE: 40, _TWO: 0}), "eager", **_NO_LOSS)
    group.join()
    group.share([0, 0])
    with pytest.raises(DataLossError, match=r"orders\[0\]@40.* begin at offset 0 and end before"):
        until(group, group.all_done)


def test_retention_while_it_reads() -> None:
    """A loss further on is an error too: the program's offsets would have a hole."""
    group = _group(_Database({_ONE: 0, _TWO: 0}), "eager", **_NO_LOSS)
    member = group.join()
    group.share([0, 0])
    until(group, group.all_done)
    group.dependency.down = True
    group.produce(0, 1)
    until(group, lambda: any(isinstance(e, events.CircuitOpened) for e in member.events))
    group.produce(0, 10)
    group.fake.delete_records(TOPIC, 0, 15)
    group.dependency.down = False
    with pytest.raises(DataLossError, match=r"begin at offset 15"):
        until(group, group.all_done)
