"""Rare moments of a run: a letter is awaited, a member was away, a commit is refused."""

from typing import get_args

import pytest
from confluent_kafka import KafkaError

from linear_retry import (
    BrokerError,
    ConfigurationError,
    FencedError,
    events,
)
from linear_retry.kafka import Message
from linear_retry.testing import AttemptStarted, Place
from tests.consumer.group import (
    LETTERS,
    TOPIC,
    FakeGroup,
    Member,
    OutageError,
    Protocol,
    consumer_on,
)
from tests.consumer.misbehaviours.misbehaving import emitted
from tests.fake.cluster import FakeKafka

_INCREMENTAL: tuple[Protocol, ...] = ("cooperative", "consumer")


def attempts(group: FakeGroup) -> list[Place]:
    return [entry.place for entry in group.witness.entries if isinstance(entry, AttemptStarted)]


@pytest.mark.parametrize("protocol", _INCREMENTAL)
def test_a_rebalance_while_the_first_letter_is_awaited(protocol: Protocol) -> None:
    """Another partition goes meanwhile, and everything is fetched again: a message that is dead
    by then is not handed over once more, and has one letter."""
    group = FakeGroup(protocol=protocol, partitions=2)
    group.produce(0, 3)
    group.produce(1, 3)
    group.dependency.refuses = {(0, 1)}
    group.fake.faults.delivery_s = 4.0
    first = group.join()
    group.share([0, 0])
    while (TOPIC, 0, 0) not in attempts(group):
        group.turn()
    group.join()
    group.fake.clock.at(1.5, lambda: group.share([0, 1]))
    group.finish()
    assert 1 == len(emitted(first, events.DeadLettered))
    assert 1 == attempts(group).count(Place(TOPIC, 0, 1))
    assert [] == group.violations()


@pytest.mark.parametrize("protocol", _INCREMENTAL)
def test_the_held_message_goes_while_its_letter_is_sent_again(protocol: Protocol) -> None:
    """The circuit is half-open then, and what stays here was paused by it: it goes on at once, and
    not only when the watchdog finds it dead."""
    group = FakeGroup(protocol=protocol, partitions=2)
    group.produce(1, 3)
    first = group.join()
    group.share([0, 0])
    group.turn(10)
    group.produce(0, 3)
    group.dependency.refuses = {(0, 0)}
    group.fake.faults.fail_delivery(KafkaError._MSG_TIMED_OUT)
    while not emitted(first, events.DeadLetterFailed):
        group.turn()
    group.join()
    group.fake.faults.delivery_s = 8.0
    group.fake.clock.at(2.5, lambda: group.share([1, 0]))
    while not emitted(first, events.Revoked):
        first.turn()
    group.produce(1, 3)
    for _ in range(5):
        first.turn()
    assert 6 == len([place for place in attempts(group) if place[1] == 1])
    group.finish()
    assert [] == emitted(first, events.PartitionRevived)
    assert [] == group.violations()


def test_a_stop_comes_before_a_probe(fake: FakeKafka) -> None:
    """Asked to stop during the last wait before `retry_at`: the handler is not called again, a
    dependency that is down may take its time."""
    calls: list[Message] = []

    def handler(message: Message) -> None:
        calls.append(message)
        raise OutageError

    with consumer_on(fake) as consumer:
        fake.clock.at(0.5, consumer.stop)
        consumer.run(handler)
    assert 1 == len(calls)


def _until_open(group: FakeGroup) -> Member:
    """A member whose circuit has just opened."""
    group.produce(0, 3)
    member = group.join()
    group.share([0])
    group.dependency.down = True
    while not emitted(member, events.CircuitOpened):
        group.turn()
    group.dependency.down = False
    return member


@pytest.mark.parametrize("protocol", ["eager", *_INCREMENTAL])
def test_the_machine_sleeps_while_a_circuit_is_open(protocol: Protocol) -> None:
    """It wakes up behind the session timeout and `retry_at`: what was held may be another's, and
    is not attempted."""
    group = FakeGroup(protocol=protocol, partitions=1, strategy=[10, 10])
    member = _until_open(group)
    group.fake.clock.at(0.5, lambda: group.fake.clock.suspend(3600))
    with group.witness.disturbing("the machine sleeps"):
        member.turn()
    assert 1 == len(attempts(group))
    assert 1 == len(emitted(member, events.Lost))
    group.finish()
    assert [] == group.violations()


@pytest.mark.parametrize("protocol", _INCREMENTAL)
def test_a_partition_assigned_by_the_poll_that_overslept_is_ours(protocol: Protocol) -> None:
    """What the group gives to a member after its machine has woken up is not given up with what
    that had before it slept."""
    group = FakeGroup(protocol=protocol, partitions=2)
    member, other = group.join(), group.join()
    group.share([0, 1])
    group.turn(2)

    def wake_up() -> None:
        group.fake.clock.suspend(3600)
        group.share([0, 0])

    group.crash(other)
    group.fake.clock.at(0.5, wake_up)
    with group.witness.disturbing("the machine sleeps"):
        member.turn()
    (lost,) = emitted(member, events.Lost)
    assert ((TOPIC, 0),) == lost.partitions
    group.produce(0)
    group.produce(1)
    group.finish()
    assert [] == group.violations()


def test_a_listener_takes_too_long() -> None:
    """Nobody polled beyond `max.poll.interval.ms`, and the group has given the partition to
    another member, of which librdkafka tells in a later poll: the held message is not attempted."""
    group = FakeGroup(partitions=1, strategy=[10, 10])
    member = _until_open(group)
    other = group.join()
    group.fake.clock.advance(400)
    member.turn()
    assert 1 == len(attempts(group))
    assert 1 == len(emitted(member, events.Lost))
    group.share([1])
    group.finish()
    assert [] == group.violations()
    # It knows of the failure, and that its wait is over.
    assert [(1, 0.0)] == [(e.failures, e.delay_s) for e in emitted(other, events.CircuitOpened)]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (KafkaError.GROUP_AUTHORIZATION_FAILED, BrokerError),
        (KafkaError.OFFSET_METADATA_TOO_LARGE, BrokerError),
        (KafkaError.FENCED_INSTANCE_ID, FencedError),
    ],
)
def test_a_first_commit_that_is_refused_for_good(code: int, expected: type[Exception]) -> None:
    """What no waiting can fix is raised, and not tried for ever, a thousand times a second."""
    group = FakeGroup(partitions=1)
    group.produce(0, 3)
    group.join()
    group.share([0])
    group.fake.faults.fail_commit(code, 100)
    with pytest.raises(expected):
        group.turn(100)
    assert [] == attempts(group)


def test_a_first_commit_of_one_who_is_no_member() -> None:
    """The group has counted us out: everything is lost, and not tried again at once."""
    group = FakeGroup(partitions=1)
    group.produce(0, 3)
    member = group.join()
    group.share([0])
    group.fake.faults.fail_commit(KafkaError.UNKNOWN_MEMBER_ID)
    group.turn(2)
    assert 1 == len(emitted(member, events.Lost))
    group.finish()
    assert [] == group.violations()


@pytest.mark.parametrize("closes_in", ["handler", "listener"])
def test_close_from_within_run(fake: FakeKafka, closes_in: str) -> None:
    """The loop goes on to use the client: it ends first, and then everything is closed."""
    happened: list[events.Event] = []

    def listen(event: events.Event) -> None:
        happened.append(event)
        if closes_in == "listener" and isinstance(event, events.CircuitOpened):
            consumer.close()

    def handler(_: Message) -> None:
        if closes_in == "handler":
            consumer.close()
        raise OutageError

    consumer = consumer_on(fake, listeners=[listen])
    consumer.run(handler)
    assert [events.CircuitOpened, events.Revoked, events.Stopped] == list(map(type, happened))[1:]
    assert [True] == [one.closed for one in fake.consumers]


@pytest.mark.parametrize("protocol", get_args(Protocol))
def test_a_missing_commit_that_is_reported_again(protocol: Protocol) -> None:
    """That nothing was committed was told a second time, when the partition read on already: it
    was begun again, and 734 messages were handled twice."""
    group = FakeGroup(protocol=protocol)
    group.join()
    for partition in range(3):
        group.produce(partition, 5)
    group.share([0, 0, 0])
    group.turn(8)
    group.fake.faults.echo((TOPIC, 1))
    group.produce(1, 5)
    group.finish()
    assert [] == group.violations()
    assert 20 == len(attempts(group))


def test_a_silent_partition_behind_a_long_queue() -> None:
    """While other messages are waiting, a partition that says nothing is not begun again: it would
    lose its place in the queue, again and again."""
    group = FakeGroup(partitions=2, strategy=[1])
    member = group.join()
    group.produce(0, 400)
    group.produce(1, 1)
    group.share([0, 0])
    group.dependency.takes_s = 0.5
    group.turn(3)
    group.fake.faults.kill((TOPIC, 1))
    group.share([0, 0])
    group.turn(60)
    assert group.fake.clock.now_s() > 1020
    assert [] == emitted(member, events.PartitionRevived)
    group.dependency.takes_s = 0.0
    group.finish()
    assert [1] == [event.partition for event in emitted(member, events.PartitionRevived)]
    assert [] == group.violations()


def test_a_refused_subscription_stays_refused(fake: FakeKafka) -> None:
    """The group gave us our own dead-letter topic: no further run reads it either."""
    with consumer_on(fake) as consumer:
        with pytest.raises(ConfigurationError):
            consumer.run(lambda _: fake.assign(fake.consumers[0], [(LETTERS, 0)]))
        with pytest.raises(ConfigurationError):
            consumer.run(lambda _: pytest.fail("handled"))
