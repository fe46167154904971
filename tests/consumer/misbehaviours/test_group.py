"""The loop stands what the group and its commits should not do."""

import threading

import pytest

from linear_retry import FencedError, Strategy, events
from linear_retry.kafka import Message
from linear_retry.testing import AttemptStarted
from tests.consumer.group import GROUP, TOPIC, FakeGroup, OutageError, Protocol, consumer_on
from tests.consumer.misbehaviours.misbehaving import (
    P0,
    all_protocols,
    emitted,
    ends_well,
    nothing_was_dead,
    open_circuit,
    reading,
    until,
)
from tests.fake.cluster import FakeKafka


def attempts(group: FakeGroup) -> list[tuple[str, tuple[str, int, int]]]:
    return [
        (entry.member, entry.place)
        for entry in group.witness.entries
        if isinstance(entry, AttemptStarted)
    ]


@all_protocols
@pytest.mark.parametrize("reported", ["lost", "revoke"])
def test_a_zombie_learns_of_it_late(protocol: Protocol, reported: str) -> None:
    """Its assignment looks healthy; what it was doing is another's by then, and is not committed
    over that. It may be notified of a revoke (librdkafka #5604)."""
    group = reading(protocol)
    zombie, heir = group.members[0], group.join()
    group.turn()
    group.dependency.takes_s = 0.3
    zombie.turn()
    group.fake.faults.lost_as_revoked = reported == "revoke"
    group.fake.lose(zombie.consumer, after=2)
    group.share([1, 1])
    for _ in range(40):
        heir.turn()
    done = dict(group.fake.group(GROUP))
    zombie.turn()
    zombie.turn()
    assert done == group.fake.group(GROUP)
    group.dependency.takes_s = 0.0
    group.finish()
    assert 1 == len(emitted(zombie, events.Revoked if reported == "revoke" else events.Lost))


def test_a_zombies_commits_are_taken() -> None:
    """KIP-848: a blocked member's, until its partition is another's. They are of what it has done,
    and once that is another's nothing more of its is taken."""
    group = open_circuit("consumer", strategy=[30])
    zombie, heir = group.members[0], group.join()
    group.fake.faults.zombies_commit = True
    group.fake.faults.lost_as_revoked = True
    group.fake.lose(zombie.consumer, after=1)
    until(group, lambda: emitted(zombie, events.Revoked))
    assert [] == emitted(zombie, events.CommitFailed)
    group.share([1, 1])
    until(group, lambda: emitted(heir, events.Assigned))
    ends_well(group)


@all_protocols
@pytest.mark.parametrize("stays", [False, True])
def test_a_rebalance_inside_the_second_call(protocol: Protocol, stays: bool) -> None:
    """What `poll` and `consume` had returned of a partition that is revoked meanwhile goes too, an
    own first message too, whether librdkafka takes it back or not."""
    group = reading(protocol)
    first = group.members[0]
    group.join()
    group.fake.faults.outdated_stay = stays
    for after in range(6):
        group.produce(0, 20)
        group.produce(1, 20)
        group.share([after % 2, 1 - after % 2], after=after)
        first.turn()
        group.turn(3)
    ends_well(group)


@all_protocols
@pytest.mark.parametrize("kind", ["revoke", "assign"])
def test_a_rebalance_of_nothing(protocol: Protocol, kind: str) -> None:
    """Callbacks with no partition at all change nothing of what is held."""
    group = open_circuit(protocol)
    bystander = group.join()
    for member in (group.members[0], bystander):
        group.fake.call_back_empty(member.consumer, kind)  # type: ignore[arg-type]  # of two
    group.turn(3)
    failures = [event.failures for event in emitted(group.members[0], events.ProbeFailed)]
    assert [2, 3][: len(failures)] == failures
    ends_well(group)
    nothing_was_dead(group.members[0])


@all_protocols
def test_a_topic_that_goes_and_comes_back(protocol: Protocol) -> None:
    """Deleted while it is read, and made again: what is in it now is read from its beginning."""
    group = FakeGroup(protocol=protocol, topics=(TOPIC, "refunds"), partitions=1)
    group.produce((TOPIC, 0), 5)
    group.produce(("refunds", 0), 5)
    member = group.join()
    group.share([0, 0])
    until(group, group.all_done)
    group.fake.delete_topic("refunds")
    group.produce((TOPIC, 0), 5)
    group.turn(10)
    assert ["UNKNOWN_TOPIC_OR_PART"] == [
        event.code for event in emitted(member, events.ClientError)
    ]
    group.fake.assign(member.consumer, [(TOPIC, 0)])
    group.turn(5)
    group.fake.create_topic("refunds", 1)
    del group.fake.group(GROUP)["refunds", 0]  # it goes with its topic
    group.visible["refunds", 0].clear()
    group.share([0, 0])
    group.turn(5)
    group.produce((TOPIC, 0), 5)
    group.finish()
    broken = group.violations()
    assert not broken, "\n".join(broken)


@all_protocols
def test_a_fenced_member_would_rejoin(protocol: Protocol) -> None:
    """Another has its `group.instance.id`, and `fatal()` is False: it handles nothing more, and
    commits nothing, though librdkafka would be given its partitions once more."""
    group = reading(protocol, config={"group.instance.id": "one"})
    (member,) = group.members
    before = len(attempts(group))
    group.fake.fence(member.consumer, rejoins=True)
    with pytest.raises(FencedError):
        member.turn()
    assert before == len(attempts(group))
    assert 1 == len(emitted(member, events.Assigned))


def test_a_close_that_never_returns(fake: FakeKafka) -> None:
    """A fenced member's took more than 295 s: ours returns when its time is over, and says so."""
    hangs = fake.faults.close_hangs = threading.Event()
    received: list[events.Event] = []
    with consumer_on(fake, close_timeout_s=0.2, listeners=[received.append]) as consumer:
        consumer.run(lambda _: consumer.stop())
    hangs.set()
    assert ["_TIMED_OUT"] == [e.code for e in received if isinstance(e, events.ClientError)]


def test_a_close_that_takes_long(fake: FakeKafka) -> None:
    """45 s with the brokers down: what was done before is committed, as far as that can be."""
    fake.faults.close_takes_s = 45.0
    seen: list[Message] = []

    def handler(message: Message) -> None:
        seen.append(message)
        if len(seen) == 4:
            consumer.stop()

    with consumer_on(fake) as consumer:
        consumer.run(handler)
    assert 4 == sum(fake.group(GROUP).values())
    assert [True] == [one.closed for one in fake.consumers]


@all_protocols
@pytest.mark.parametrize("errors_per_poll", [0, 50])
def test_brokers_are_down_while_open(protocol: Protocol, errors_per_poll: int) -> None:
    """Reported once, and at every tenfold; where librdkafka is silent while everything is paused,
    by us. The held message is attempted when its time has come, broker or not."""
    group = open_circuit(protocol, strategy=[30, 30])
    (member,) = group.members
    group.fake.faults.brokers_down = True
    group.fake.faults.errors_per_poll = errors_per_poll
    group.fake.clock.at(45, group.fake.faults.clear)
    until(group, lambda: emitted(member, events.ProbeFailed))
    assert 1 <= len(emitted(member, events.ClientError)) <= (8 if errors_per_poll else 1)
    ends_well(group)


@all_protocols
@pytest.mark.parametrize("step_s", [-3600.0, 3600.0])
def test_the_time_of_day_is_set(protocol: Protocol, step_s: float) -> None:
    """While a circuit is open, an hour back or forward: it waits no longer, and no less."""
    group = open_circuit(protocol, strategy=[10, 10])
    (member,) = group.members
    opened_s = group.fake.clock.now_s()
    group.fake.clock.at(5, lambda: group.fake.clock.step_wall(step_s))
    group.dependency.down_for = set()
    until(group, lambda: emitted(member, events.CircuitClosed))
    assert opened_s + 10 == group.fake.clock.now_s()
    ends_well(group)


@all_protocols
@pytest.mark.parametrize("seen", [False, True])
def test_the_machine_slept(protocol: Protocol, seen: bool) -> None:
    """An hour: others have its partitions. Where its clock stood still it cannot know before
    librdkafka tells it, and its commits are refused."""
    group = open_circuit(protocol, strategy=[10, 10])
    sleeper, heir = group.members[0], group.join()
    heir.turn()
    with group.witness.disturbing("the machine sleeps"):
        group.fake.clock.suspend(3600, seen=seen)
    group.fake.lose(sleeper.consumer)
    group.share([1, 1])
    group.dependency.down_for = set()
    for _ in range(20):
        heir.turn()
    sleeper.turn()
    assert [] == [place for name, place in attempts(group)[3:] if name == sleeper.name]
    ends_well(group)


def test_an_attempt_knows_what_time_it_is(fake: FakeKafka) -> None:
    """Set back between two failures: the second is not before the first in what is told."""
    fake.faults.commit_answer_s = 0.5
    received: list[events.CircuitOpened] = []

    def on_event(event: events.Event) -> None:
        if isinstance(event, events.CircuitOpened):
            received.append(event)
            fake.clock.step_wall(-7200)

    def handler(_: Message) -> None:
        if not received:
            raise OutageError

    fake.clock.at(30, lambda: consumer.stop())
    with consumer_on(fake, strategy=Strategy([1]), listeners=[on_event]) as consumer:
        consumer.run(handler)
    assert 6 == sum(fake.group(GROUP).values())
    assert P0[0] == received[0].topic
