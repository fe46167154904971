"""A fenced member says so, whatever else happens at that moment."""

from typing import get_args

import pytest
from confluent_kafka import KafkaError

from linear_retry import BrokerError, FencedError, events
from tests.consumer.group import FakeGroup, Protocol
from tests.consumer.misbehaviours.misbehaving import begun, emitted, reading, until


@pytest.mark.parametrize("protocol", get_args(Protocol))
def test_fenced_in_the_poll_that_is_interrupted(protocol: Protocol) -> None:
    """A Ctrl-C drops what the poll had taken, and the next turn begins every partition again, of
    which librdkafka has none any more: it said "can't subtract from empty assignment" to a program
    that should have heard that it was fenced."""
    group = FakeGroup(protocol=protocol, partitions=2)
    group.produce(0)
    group.produce(1)
    member = group.join()
    group.share([0, 0])
    member.turn()
    group.fake.fence(member.consumer)
    group.fake.faults.raise_in_poll(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        member.turn()
    with pytest.raises(FencedError):
        member.turn()
    assert [] == group.violations(finished=False)


@pytest.mark.parametrize("protocol", get_args(Protocol))
def test_a_commit_fails_first(protocol: Protocol) -> None:
    """The answer to a commit says that the client is done for, and a poll says why, later: it used
    to end the consumer as one that only has to be started again."""
    group = reading(protocol)
    group.fake.faults.fail_commit(KafkaError._FATAL)
    until(group, lambda: emitted(group.members[0], events.CommitFailed))
    group.fake.fence(group.members[0].consumer)
    with pytest.raises(FencedError):
        group.members[0].turn()
    assert [] == group.violations(finished=False)


def test_nobody_says_why() -> None:
    """A client that is done for is not run for ever because no poll has said why."""
    group = reading("eager")
    group.fake.faults.fail_commit(KafkaError._FATAL, 9)
    with pytest.raises(BrokerError, match="restart the consumer"):
        until(group, lambda: not group.fake.faults.left())
    assert [] == group.violations(finished=False)


@pytest.mark.parametrize("protocol", get_args(Protocol))
def test_nothing_is_handled_until_somebody_says_why(protocol: Protocol) -> None:
    """Between the answer to the commit and the reason the member may be fenced already: it went on
    with what it had read."""
    group = reading(protocol)
    group.fake.faults.fail_commit(KafkaError._FATAL)
    until(group, lambda: emitted(group.members[0], events.CommitFailed))
    before = begun(group)
    group.produce(0, 5)
    with pytest.raises(BrokerError, match="restart the consumer"):
        group.turn(1_000)
    assert before == begun(group)
    assert emitted(group.members[0], events.Lost)
