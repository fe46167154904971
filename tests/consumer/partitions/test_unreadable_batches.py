"""A partition whose next batch cannot be read stops, and is skipped on an operator's word."""

from concurrent.futures import Future

import pytest

from linear_retry import events
from linear_retry.consumer.ownership.requests import SkipUnreadable
from linear_retry.scope import Partition
from tests.consumer.group import GROUP, FakeGroup, Member, Protocol
from tests.consumer.misbehaviours.misbehaving import (
    P0,
    all_protocols,
    begun,
    emitted,
    ends_well,
    nothing_was_dead,
    reading,
    until,
)

each_kind = pytest.mark.parametrize("repeats", [False, True], ids=["garbage", "repeats"])


def corrupted(protocol: Protocol, *, repeats: bool, first: int = 4, last: int = 6) -> FakeGroup:
    """Two partitions with ten messages, one of which has a batch that nobody can read."""
    group = reading(protocol)
    group.fake.corrupt(P0, first, last, repeats=repeats)
    return group


def stopped(group: FakeGroup) -> Member:
    """Its one member, once it has met that batch."""
    (member,) = group.members
    until(group, lambda: emitted(member, events.PartitionUnreadable))
    return member


def ask(member: Member, offset: int, partition: Partition = P0) -> Future[bool]:
    return member.parts.requests.submit(SkipUnreadable((partition, offset)))


def handled(group: FakeGroup, partition: Partition) -> list[int]:
    """The offsets of this partition that the handler was called with."""
    return [place[2] for _, place in begun(group) if place[:2] == partition]


@all_protocols
@each_kind
def test_it_stops_its_partition_only(protocol: Protocol, repeats: bool) -> None:
    """The bug: librdkafka's next question, for an offset made of garbage, was taken for a loss by
    retention, and reading began at the earliest, again and again: 94,905 calls for 15 messages."""
    group = corrupted(protocol, repeats=repeats)
    member = stopped(group)
    group.turn(200)
    assert [*range(4)] == handled(group, P0)
    assert [*range(10)] == handled(group, ("orders", 1))
    assert {P0: 4, ("orders", 1): 10} == group.fake.group(GROUP)
    assert [] == emitted(member, events.DataLost)
    nothing_was_dead(member)
    assert [] == group.violations(finished=False)


@all_protocols
@each_kind
def test_it_is_read_again_now_and_then(protocol: Protocol, repeats: bool) -> None:
    """After 5, 10, 30, 60, 60 ... s, said each time with what is wrong; and where it can be read
    one day, as another replica is the leader, all goes on and nothing is lost."""
    group = corrupted(protocol, repeats=repeats)
    member = stopped(group)
    until(group, lambda: len(emitted(member, events.PartitionUnreadable)) == 5)
    unread = emitted(member, events.PartitionUnreadable)
    assert [5.0, 10.0, 30.0, 60.0, 60.0] == [event.delay_s for event in unread]
    assert [(1, 4), (5, 4)] == [(event.attempts, event.offset) for event in (unread[0], unread[-1])]
    assert "CRC32C" in unread[0].error
    group.fake.repair(P0)
    ends_well(group)
    assert [4] == [event.offset for event in emitted(member, events.PartitionReadable)]
    assert [*range(10)] == handled(group, P0)


@all_protocols
@each_kind
def test_an_operator_steps_over_it(protocol: Protocol, repeats: bool) -> None:
    """Its batch, and no message more, is lost and said to be; its successor goes on behind it."""
    group = corrupted(protocol, repeats=repeats, last=5)
    member = stopped(group)
    answer = ask(member, 4)
    until(group, answer.done)
    assert answer.result()
    assert [events.DataLost(*P0, 4, 6)] == emitted(member, events.DataLost)
    ends_well(group)
    assert [0, 1, 2, 3, 6, 7, 8, 9] == handled(group, P0)
    assert [6] == [event.offset for event in emitted(member, events.PartitionReadable)]


@all_protocols
def test_a_batch_that_was_read_in_part(protocol: Protocol) -> None:
    """It begins before what is committed: from there on it is unread, and nothing is handled twice;
    a new owner stops at the same place, of which nothing was delivered to it."""
    group = reading(protocol)
    until(group, group.all_done)
    group.produce(0, 5)
    group.leave(group.members[0])
    group.fake.corrupt(P0, 7, 12, repeats=False)
    group.join()
    group.share([0, 0])
    member = stopped(group)
    assert [10] == [event.offset for event in emitted(member, events.PartitionUnreadable)]
    answer = ask(member, 10)
    until(group, answer.done)
    assert [events.DataLost(*P0, 10, 13)] == emitted(member, events.DataLost)
    ends_well(group)


@all_protocols
def test_what_comes_before_it_fails(protocol: Protocol) -> None:
    """It is held and attempted again in its turn, and only then the batch can be stepped over."""
    group = corrupted(protocol, repeats=False)
    (member,) = group.members
    group.dependency.down_for = {P0}
    until(group, lambda: emitted(member, events.CircuitOpened))
    group.turn(20)
    group.dependency.down_for = set()
    member = stopped(group)
    answer = ask(member, 4)
    until(group, answer.done)
    ends_well(group)
    assert [events.DataLost(*P0, 4, 7)] == emitted(member, events.DataLost)


def test_a_request_about_another_offset() -> None:
    """False: it does not stand still there."""
    group = corrupted("eager", repeats=False)
    member = stopped(group)
    answers = [ask(member, 5), ask(member, 4, ("orders", 1))]
    group.turn(2)
    assert [False, False] == [answer.result(0) for answer in answers]
    assert [] == emitted(member, events.DataLost)


def test_readable_after_all() -> None:
    """False, and nothing is lost, where the batch has become readable before the word."""
    group = corrupted("eager", repeats=False)
    member = stopped(group)
    group.fake.repair(P0)
    answer = ask(member, 4)
    until(group, answer.done)
    assert not answer.result()
    ends_well(group)
    assert [] == emitted(member, events.DataLost)
    assert [*range(10)] == handled(group, P0)


def test_no_broker_says_where_it_ends() -> None:
    """False after 30 s, and it stands still where it was."""
    group = corrupted("eager", repeats=False)
    member = stopped(group)
    group.fake.faults.brokers_down = True
    asked_at_s = group.fake.clock.now_s()
    answer = ask(member, 4)
    while not answer.done():
        group.turn()
    assert not answer.result()
    assert 30.0 <= group.fake.clock.now_s() - asked_at_s < 32.0
    assert [] == emitted(member, events.DataLost)


@all_protocols
def test_it_goes_to_another_member(protocol: Protocol) -> None:
    """Its next owner meets it too; the one before forgets it, and answers so."""
    group = corrupted(protocol, repeats=False)
    first = stopped(group)
    second = group.join()
    group.share([1, 0])
    until(group, lambda: emitted(second, events.PartitionUnreadable))
    answer = ask(first, 4)
    until(group, answer.done)
    assert not answer.result()
    assert not first.parts.assignment.unreadable
    answer = ask(second, 4)
    until(group, answer.done)
    ends_well(group)
