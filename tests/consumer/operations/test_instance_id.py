"""A static member of a KIP-848 group waits for its name after a crash."""

import pytest
from confluent_kafka import KafkaError

from linear_retry import FencedError, events
from tests.consumer.group import FakeGroup, Member
from tests.consumer.misbehaviours.misbehaving import emitted, ends_well, until

_NAME = "pod-1"


def _restarted(for_s: float, *, session_s: float = 45.0) -> tuple[FakeGroup, Member]:
    """A member whose former self was killed: its session lasts so long still."""
    group = FakeGroup(protocol="consumer", config={"group.instance.id": _NAME}, partitions=2)
    group.fake.session_ms = int(session_s * 1000)
    group.produce(0, 5)
    group.fake.take_name(_NAME, for_s)
    return group, group.join()


def _turn_until(group: FakeGroup, at_s: float) -> None:
    while group.fake.clock.now_s() < at_s:
        group.turn()


def test_it_waits_until_the_session_is_over() -> None:
    """It ended at once with `FencedError`, again and again until the session was over."""
    group, member = _restarted(38.0)
    _turn_until(group, group.fake.clock.now_s() + 42.0)
    group.share([0, 0])
    ends_well(group)
    left_s = [round(event.remaining_s) for event in emitted(member, events.InstanceIdTaken)]
    assert [55, 45, 35, 25] == left_s
    assert {_NAME} == {event.group_instance_id for event in emitted(member, events.InstanceIdTaken)}
    # Nobody has to be notified of each client that tried.
    assert [] == emitted(member, events.ClientReplaced)
    assert [] == emitted(member, events.Lost)


def test_a_client_for_each_try_and_no_more() -> None:
    """One a second: the refusal is fatal to each."""
    group, member = _restarted(20.0)
    _turn_until(group, group.fake.clock.now_s() + 30.0)
    assert 20 <= len(member.handles) <= 22


@pytest.mark.parametrize(("session_s", "waits_s"), [(45.0, 55.0), (6.0, 30.0)])
def test_it_stays_taken(session_s: float, waits_s: float) -> None:
    """Longer than a session, and than `start_timeout_s`: another running member has it."""
    group, _ = _restarted(600.0, session_s=session_s)
    began_s = group.fake.clock.now_s()
    with pytest.raises(FencedError, match=r"group\.instance\.id"):
        _turn_until(group, began_s + 600.0)
    assert waits_s == pytest.approx(group.fake.clock.now_s() - began_s, abs=2.0)


def test_a_stop_while_it_waits() -> None:
    """It is heard, and nothing is raised."""
    group, member = _restarted(600.0)
    _turn_until(group, group.fake.clock.now_s() + 5.0)
    group.leave(member)
    assert events.Stopped(left_group=False) == member.events[-1]


def test_it_is_taken_while_it_runs() -> None:
    """A member that is fenced while it runs has a rival: it ends at once."""
    group, member = _restarted(0.0)
    group.share([0, 0])
    until(group, lambda: emitted(member, events.Assigned))
    taken = "Broker: The instance ID is still used by another member in the consumer group"
    member.consumer.fail(KafkaError(KafkaError._FATAL, taken))
    with pytest.raises(FencedError):
        group.turn(2)


def test_nobody_says_how_long_a_session_is() -> None:
    """Then it is taken for what Kafka's default is."""
    group, member = _restarted(600.0)
    group.fake.faults.admin_answer_s = None
    with pytest.raises(FencedError):
        _turn_until(group, group.fake.clock.now_s() + 600.0)
    assert 53 == round(emitted(member, events.InstanceIdTaken)[0].remaining_s)
