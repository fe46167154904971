"""The loop stands pauses and seeks that go wrong."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from linear_retry import events
from tests.consumer.group import TOPIC, Protocol
from tests.consumer.misbehaviours.misbehaving import (
    P0,
    P1,
    all_protocols,
    begun,
    emitted,
    ends_well,
    nothing_was_dead,
    open_circuit,
    reading,
    until,
)

REFUSED = KafkaException(KafkaError(KafkaError._STATE, "Local: Erroneous state"))


@all_protocols
def test_a_pause_right_after_the_assign_is_lost(protocol: Protocol) -> None:
    """What is assigned while a circuit is open, and paused in vain, is dropped and paused again."""
    group = open_circuit(protocol)
    first = group.members[0]
    group.join()
    group.share([0, 1])
    until(group, lambda: emitted(group.members[1], events.Assigned))
    group.produce(1, 50)
    group.fake.faults.race(P1)
    group.share([0, 0])
    until(group, lambda: emitted(first, events.LeakDropped))
    group.turn(3)
    assert [1] == [event.partition for event in emitted(first, events.LeakDropped)]
    ends_well(group)


@all_protocols
def test_a_paused_partition_leaks_again_and_again(protocol: Protocol) -> None:
    """Each message is dropped, whatever the pause said, and comes again in its order."""
    group = open_circuit(protocol)
    group.fake.faults.leak(P0, 3)
    group.fake.faults.leak(P1, 3)
    until(group, lambda: len(emitted(group.members[0], events.LeakDropped)) >= 6)
    ends_well(group)


@all_protocols
def test_the_pause_flag_survives_a_revoke(protocol: Protocol) -> None:
    """What went away paused and comes back is resumed (confluent-kafka-go #193)."""
    group = open_circuit(protocol)
    first, _ = group.members[0], group.join()
    group.share([1, 1])
    until(group, lambda: emitted(first, events.Revoked))
    group.dependency.down_for = set()
    group.fake.clock.advance(10)
    group.turn(2)
    group.share([0, 0])
    ends_well(group)
    nothing_was_dead(first)


@all_protocols
@pytest.mark.parametrize("call", ["pause", "resume"])
def test_a_call_is_refused(protocol: Protocol, call: str) -> None:
    """A pause or resume that librdkafka refuses is made for each partition by itself."""
    group = open_circuit(protocol) if call == "resume" else reading(protocol)
    group.fake.faults.raise_in_call(call, REFUSED)
    group.dependency.down_for = {P0}
    group.turn(5)
    ends_well(group)
    nothing_was_dead(group.members[0])


@all_protocols
def test_new_partitions_while_open(protocol: Protocol) -> None:
    """They are assigned and not paused by librdkafka: nothing of them is attempted before."""
    group = open_circuit(protocol)
    group.fake.add_partitions(TOPIC, 1)
    group.visible[TOPIC, 2] = []
    group.produce(2, 5)
    group.share([0, 0, 0])
    group.turn(5)
    assert [] == [place for _, place in begun(group) if place[1] == 2]
    assert [] == emitted(group.members[0], events.LeakDropped)
    ends_well(group)


@all_protocols
def test_a_late_resume(protocol: Protocol) -> None:
    """Sought after the resume, the next message comes at once: a resume alone takes a second."""
    group = open_circuit(protocol)
    group.fake.faults.late_resume_s = 0.8
    group.dependency.down_for = set()
    until(group, lambda: emitted(group.members[0], events.CircuitClosed))
    closed_s = group.fake.clock.now_s()
    group.turn(2)
    assert closed_s == begun(group)[-1][0]
    ends_well(group)


@all_protocols
def test_a_pause_undoes_a_seek(protocol: Protocol) -> None:
    """So the pause comes first, and each seek holds (librdkafka #3471)."""
    group = reading(protocol, strategy=[1, 1, 1])
    group.fake.faults.pause_loses_seek = True
    for _ in range(3):
        group.dependency.down = True
        group.turn(6)
        group.dependency.down = False
        group.turn(6)
    ends_well(group)
    assert [] == emitted(group.members[0], events.DataLost)


@all_protocols
@pytest.mark.parametrize(
    "code", [KafkaError._STATE, KafkaError._TIMED_OUT, KafkaError._UNKNOWN_PARTITION]
)
@pytest.mark.parametrize("times", [1, 2])
def test_a_seek_fails_as_the_circuit_opens(protocol: Protocol, code: int, times: int) -> None:
    """It is not passed over: the partition begins again, still paused, or is given up."""
    group = reading(protocol)
    group.dependency.down = True
    group.turn()
    group.fake.faults.fail_seek(code, times)
    group.turn(5)
    ends_well(group)


@all_protocols
def test_seeks_fail_right_after_an_assign(protocol: Protocol) -> None:
    """700 of 9,000 right after a rebalance did (librdkafka #2190, #5345): it begins again there."""
    group = reading(protocol)
    group.fake.faults.refuse_early_seek(P0)
    group.fake.faults.fail_seek(KafkaError._STATE)
    group.dependency.down = True
    until(group, lambda: emitted(group.members[0], events.CircuitOpened))
    ends_well(group)
