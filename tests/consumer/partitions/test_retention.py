"""Where a partition goes on once retention has removed its next offset."""

from typing import Literal, get_args

import pytest

from linear_retry import events
from tests.consumer.group import GROUP, TOPIC, FakeGroup, Protocol
from tests.consumer.misbehaviours.misbehaving import emitted, until

Reset = Literal["earliest", "latest"]

_LOW = 5


@pytest.mark.filterwarnings("ignore:auto.offset.reset=latest")
@pytest.mark.parametrize("reset", get_args(Reset))
@pytest.mark.parametrize("protocol", get_args(Protocol))
def test_lost_in_several_partitions(protocol: Protocol, reset: Reset) -> None:
    """Each goes on where the broker says that it begins, or ends: begun again "at the beginning",
    which an eager assignment of another does once more, librdkafka goes back there later."""
    group = FakeGroup(protocol=protocol, config={"auto.offset.reset": reset})
    for topic, number in group.partitions:
        group.produce(number, 10)
        del group.visible[topic, number][:2]
        group.fake.group(GROUP)[topic, number] = 2
        group.fake.delete_records(topic, number, _LOW)
    member = group.join()
    group.share([0, 0, 0])
    group.turn(40)
    group.fake.clock.advance(0.6)
    for _, number in group.partitions:
        group.produce(number, 3)
    group.finish()
    assert [] == group.violations()
    assert len(group.partitions) == len(emitted(member, events.DataLost))


@pytest.mark.filterwarnings("ignore:auto.offset.reset=latest")
@pytest.mark.parametrize("reset", get_args(Reset))
@pytest.mark.parametrize("protocol", get_args(Protocol))
def test_another_fails_right_after_the_loss(protocol: Protocol, reset: Reset) -> None:
    """The place that was lost is not sought again when the circuit closes: with `latest`, all that
    had come while it was open would be passed over, and in any case be said to be lost."""
    group = FakeGroup(protocol=protocol, partitions=2, config={"auto.offset.reset": reset})
    lost, failing = (TOPIC, 0), (TOPIC, 1)
    group.fake.group(GROUP).update({lost: 0, failing: 0})
    group.produce(lost)
    member = group.join()
    group.share([0, 0])
    group.turn(5)
    group.dependency.down_for = {failing}
    group.produce(failing, 20)
    until(group, lambda: emitted(member, events.CircuitOpened))
    group.produce(lost, 10)
    group.fake.delete_records(*lost, _LOW)
    group.dependency.down_for = set()
    until(group, lambda: emitted(member, events.DataLost))
    group.dependency.down_for = {failing}
    until(group, lambda: emitted(member, events.CircuitOpened)[1:])
    group.produce(lost, 3)
    group.dependency.down_for = set()
    group.finish()
    assert [] == group.violations()
    assert 1 == len(emitted(member, events.DataLost))


@pytest.mark.parametrize("protocol", get_args(Protocol))
def test_all_is_removed_while_a_letter_is_awaited(protocol: Protocol) -> None:
    """Nothing behind the message is committed before its letter is there. The bug: the end of the
    partition was, heard in between: a crash then would have lost the letter, with nobody told."""
    group = FakeGroup(protocol=protocol, partitions=1)
    group.produce(0, 10)
    group.dependency.refuses = {(0, 0)}
    group.fake.faults.delivery_s = 10.0
    member = group.join()
    group.share([0])
    committed: list[int | None] = []
    clock = group.fake.clock
    clock.at(0.1, lambda: group.fake.delete_records(TOPIC, 0, 10))
    clock.at(9, lambda: committed.append(group.fake.group(GROUP).get((TOPIC, 0))))
    until(group, lambda: emitted(member, events.DeadLettered))
    assert 1 == len(emitted(member, events.DataLost))
    assert [0] == committed
    group.produce(0, 3)
    group.finish()
    assert [] == group.violations()


@pytest.mark.parametrize("protocol", get_args(Protocol))
def test_the_end_is_reported_before_all_is_done(protocol: Protocol) -> None:
    """Of what is in memory, that is: behind it nothing is left, and the end is committed once it
    is done. It was not, and the next owner told of the same loss once more."""
    group = FakeGroup(protocol=protocol, partitions=1)
    group.produce(0, 20)
    member = group.join()
    group.share([0])
    ahead: list[int] = []

    def slow(_: float) -> None:
        ahead.append(len(member.parts.read_ahead.messages))
        if len(ahead) > 1:
            group.fake.delete_records(TOPIC, 0, 20)
            group.fake.clock.advance(1.5)  # so that it polls after each of them

    group.dependency.advance = slow
    until(group, lambda: 20 == group.fake.group(GROUP).get((TOPIC, 0)))
    assert max(ahead) > 1
    assert 1 == len(emitted(member, events.DataLost))
    assert [] == group.violations()


@pytest.mark.parametrize("protocol", get_args(Protocol))
def test_what_nobody_could_see_is_removed(protocol: Protocol) -> None:
    """The end of a partition is committed once all before it is done. The bug: the records of an
    aborted transaction stayed behind the committed offset. Retention took them, `DataLost` was
    said though nothing was lost, and with `error` the next member did not start."""
    group = FakeGroup(protocol=protocol, partitions=1, config={"auto.offset.reset": "error"})
    group.fake.group(GROUP)[TOPIC, 0] = 0
    group.produce(0, 3)
    first = group.join()
    group.share([0])
    group.finish()
    end = _abort(group, 4)
    until(group, lambda: group.fake.group(GROUP)[TOPIC, 0] == end)
    group.leave(first)
    group.fake.delete_records(TOPIC, 0, end)
    second = group.join()
    group.share([0])
    group.produce(0, 2)
    group.finish()
    assert [] == emitted(second, events.DataLost)
    assert [] == group.violations()


@pytest.mark.parametrize("transactional", [False, True])
def test_the_end_is_committed_behind_what_was_done_last(transactional: bool) -> None:
    """Behind a message that is held, or whose letter is on its way, nothing is committed; behind
    its letter the end is. The bug: the group stayed behind for ever, in Kafka's own tools too."""
    group = FakeGroup(partitions=1, strategy=[30], transactional=transactional)
    group.produce(0, 3)
    group.join()
    group.share([0])
    group.dependency.down_for = {(TOPIC, 0)}
    end = _abort(group, 4)
    group.turn(5)
    assert {(TOPIC, 0): 0} == group.fake.group(GROUP)  # the first is held
    group.dependency.down_for = set()
    group.dependency.refuses = {(0, 2)}
    group.fake.faults.delivery_s = 10.0
    until(group, lambda: group.fake.group(GROUP)[TOPIC, 0] == end)
    assert [] == group.violations()


def _abort(group: FakeGroup, count: int) -> int:
    """A transaction is aborted: so many offsets that hold nothing for us. Returns the end."""
    log = group.fake.topics[TOPIC].partitions[0]
    log.mark(count)
    return log.end
