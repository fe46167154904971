"""The loop stands commits that are refused, late, or never answered."""

import pytest
from confluent_kafka import KafkaError

from linear_retry import events
from tests.consumer.group import GROUP, FakeGroup, Protocol
from tests.consumer.misbehaviours.misbehaving import (
    P0,
    P1,
    all_protocols,
    emitted,
    ends_well,
    reading,
    until,
)

RETRIABLE = [
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._WAIT_COORD,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError._ASSIGNMENT_LOST,
]


@all_protocols
@pytest.mark.parametrize("code", RETRIABLE)
@pytest.mark.parametrize("lands", [False, True])
def test_commits_are_refused_for_now(protocol: Protocol, code: int, lands: bool) -> None:
    """Reported once, and committed with the next; also where the broker has it all the same."""
    group = reading(protocol)
    group.fake.faults.fail_commit(code, 3, lands=lands)
    until(group, lambda: not group.fake.faults.left())
    assert 1 == len(emitted(group.members[0], events.CommitFailed))
    ends_well(group)


@all_protocols
def test_one_partition_of_a_commit_is_refused(protocol: Protocol) -> None:
    """Only that one is told and committed again."""
    group = reading(protocol)
    group.fake.faults.fail_commit_of(P1, KafkaError.UNKNOWN_TOPIC_OR_PART)
    until(group, lambda: emitted(group.members[0], events.CommitFailed))
    assert [(P1,)] == [one.partitions for one in emitted(group.members[0], events.CommitFailed)]
    ends_well(group)


@all_protocols
def test_the_first_commit_of_one_partition_is_refused(protocol: Protocol) -> None:
    """Nothing of it is attempted before it is committed where the group begins."""
    group = FakeGroup(protocol=protocol, partitions=2)
    group.produce(0, 3)
    group.produce(1, 3)
    group.fake.faults.commits_land_late = True
    group.fake.faults.commit_answer_s = 5.0
    group.fake.faults.fail_commit_of(P1, KafkaError.NOT_COORDINATOR, 2)
    known: list[int] = []
    group.dependency.advance = lambda _: known.append(len(group.fake.group(GROUP)))
    member = group.join()
    group.share([0, 0])
    ends_well(group)
    assert [1, 1, 1, 2, 2, 2] == known
    assert 1 == len(emitted(member, events.CommitFailed))


@all_protocols
@pytest.mark.parametrize("late", [False, True])
def test_commits_are_never_answered(protocol: Protocol, late: bool) -> None:
    """Whether they arrive or not: what is done later is sent after a minute, or on revoke."""
    group = reading(protocol)
    group.fake.faults.commit_answer_s = None
    group.fake.faults.commits_land_late = late
    for _ in range(4):
        group.turn(4)
        group.fake.clock.advance(1)
    group.join()
    group.share([1, 0])
    group.turn(10)
    group.fake.faults.commit_answer_s = 0.0
    group.share([0, 1])
    ends_well(group)


@all_protocols
def test_a_commit_is_retried(protocol: Protocol) -> None:
    """It lands behind what would be sent meanwhile, so nothing is. The bug: where a circuit opened
    right after it, the broker kept the older offset for the whole wait."""
    group = reading(protocol, strategy=(30,))
    until(group, group.all_done)
    group.fake.faults.commits_retried = 1
    group.produce(0, 1)
    until(group, lambda: not group.fake.faults.commits_retried)
    group.produce(0, 2)
    left = [1]

    def takes_one_more(_: float) -> None:
        group.dependency.down = not left
        left[:] = []

    group.dependency.advance = takes_one_more
    until(group, lambda: emitted(group.members[0], events.CircuitOpened))
    (opened,) = emitted(group.members[0], events.CircuitOpened)
    from_s = group.fake.clock.now_s()
    until(group, lambda: group.fake.clock.now_s() > from_s + 5)
    assert opened.offset == group.fake.group(GROUP)[P0]
    group.dependency.advance = lambda _: None
    ends_well(group)


@all_protocols
@pytest.mark.parametrize("lands_late", [False, True])
def test_a_commit_is_answered_after_the_revoke(protocol: Protocol, lands_late: bool) -> None:
    """The answer is about an ownership that is over, also where the partition has come back."""
    group = reading(protocol)
    group.fake.faults.commit_answer_s = 2.5
    group.fake.faults.commits_land_late = lands_late
    group.join()
    for owners in ([1, 0], [0, 1], [1, 1], [0, 0]):
        group.share(owners)
        group.produce(0, 3)
        group.produce(1, 3)
        group.turn(3)
        group.fake.clock.advance(0.9)
    ends_well(group)


@all_protocols
@pytest.mark.parametrize("back_after_s", [20.0, 100.0])
def test_a_commit_on_revoke_blocks(protocol: Protocol, back_after_s: float) -> None:
    """With the brokers down, for 45 s: the partition goes when librdkafka gives up, or before."""
    group = reading(protocol)
    first, _ = group.members[0], group.join()
    group.fake.faults.commit_answer_s = None
    group.fake.faults.commits_land_late = True
    group.turn(3)
    group.fake.faults.brokers_down = True
    group.fake.faults.commit_blocks_s = 45.0
    down_s = group.fake.clock.now_s()
    group.fake.clock.at(back_after_s, group.fake.faults.clear)
    group.share([1, 1])
    first.turn()
    assert min(back_after_s, 45) == group.fake.clock.now_s() - down_s
    assert (back_after_s > 45) == bool(emitted(first, events.CommitFailed))
    ends_well(group)
