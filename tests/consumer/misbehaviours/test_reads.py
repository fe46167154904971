"""The loop stands what librdkafka should not deliver."""

import pytest
from confluent_kafka import TopicPartition

from linear_retry import events
from tests.consumer.group import GROUP, LETTERS, TOPIC, FakeGroup, Protocol
from tests.consumer.misbehaviours.misbehaving import (
    LONGER_THAN_PATIENCE_S,
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


@all_protocols
def test_the_first_message_is_a_later_one(protocol: Protocol) -> None:
    """It is not believed: sought again, what was left out comes."""
    group = open_circuit(protocol)
    group.fake.faults.jump(P0, 6)
    group.fake.faults.jump(P1, 6)
    ends_well(group)


@all_protocols
def test_the_first_message_is_the_one_before(protocol: Protocol) -> None:
    """It is done already, and dropped."""
    group = open_circuit(protocol)
    group.fake.faults.stale(P0)
    group.fake.faults.stale(P1)
    ends_well(group)


@all_protocols
def test_what_was_read_comes_again(protocol: Protocol) -> None:
    """Though nothing was sought: it is done already, and dropped."""
    group = reading(protocol)
    for _ in range(4):
        group.fake.faults.rewind(P0, 3)
        group.fake.faults.rewind(P1, 1)
        group.turn()
    ends_well(group)
    assert 20 == len(begun(group))


@all_protocols
def test_markers_at_the_end(protocol: Protocol) -> None:
    """The broker's end stays above what is read, for ever: a partition at its end is not dead."""
    group = reading(protocol)
    group.fake.topics[TOPIC].partitions[0].mark(3)
    group.fake.topics[TOPIC].partitions[1].append(b"open", None, None, 0, pending=True)
    group.finish()
    group.share([0, 0])
    for _ in range(60):
        group.turn()
    assert group.fake.clock.now_s() > 1_000 + 2 * LONGER_THAN_PATIENCE_S
    nothing_was_dead(group.members[0])
    assert [] == group.violations()


@all_protocols
def test_gaps_everywhere(protocol: Protocol) -> None:
    """Offsets that nobody can read, before a message that fails, and at which all is begun."""
    group = open_circuit(protocol)
    for number in range(6):
        group.produce(number % 2, 1, gap=number)
    group.join()
    group.share([1, 0])
    ends_well(group)


@all_protocols
def test_a_slow_broker(protocol: Protocol) -> None:
    """The first message takes longer than the watchdog's patience: it waits longer each time."""
    group = open_circuit(protocol)
    group.fake.faults.late_fetch_s = LONGER_THAN_PATIENCE_S
    ends_well(group)


@all_protocols
def test_a_watchdog_without_an_answer(protocol: Protocol) -> None:
    """As long as the broker does not say how far it has got, nothing is taken for dead."""
    group = open_circuit(protocol)
    group.fake.faults.admin_answer_s = None
    group.fake.faults.kill(P1)
    group.dependency.down_for = set()
    with group.witness.disturbing("the broker does not say how far it has got"):
        group.turn(60)
    nothing_was_dead(group.members[0])
    group.fake.faults.admin_answer_s = 3.0
    group.share([0, 0])
    ends_well(group)


@all_protocols
def test_a_first_offset_that_is_not_decided(protocol: Protocol) -> None:
    """A dead owner's transaction may commit more: it is waited for, and nothing done twice."""
    group = FakeGroup(protocol=protocol, partitions=1)
    group.produce(0, 4)
    group.fake.group(GROUP)[P0] = 0
    group.visible[P0].remove(0)
    group.visible[P0].remove(1)
    offsets = [TopicPartition(*P0, 2)]
    group.fake.transactions.initialise("dead")
    group.fake.transactions.add_offsets("dead", GROUP, offsets, 14.5)
    group.join()
    group.share([0])
    group.turn(10)
    assert [] == begun(group)
    group.fake.transactions.end("dead", commit=True)
    ends_well(group)
    assert (TOPIC, 0, 2) == begun(group)[0][1]


@all_protocols
def test_headers_that_end_the_process(protocol: Protocol) -> None:
    """A name that is not UTF-8: the letter has it escaped, and says so."""
    group = reading(protocol)
    group.dependency.refuses = {(0, 1)}
    group.fake.faults.spoil_headers(P0)
    ends_well(group)
    (letter,) = group.fake.topics[LETTERS].partitions[0].records
    headers = dict(letter.headers or ())
    assert (b"value", b"spoilt%FF") == (headers["spoilt%FF"], headers["retry-escaped-headers"])


@all_protocols
def test_the_end_is_not_known_when_something_is_lost(protocol: Protocol) -> None:
    """The broker does not say where it begins: it is asked once more."""
    group = open_circuit(protocol)
    group.fake.faults.silence_edges()
    group.fake.delete_records(*P1, 5)
    del group.visible[P1][1:5]
    ends_well(group)
    (lost,) = emitted(group.members[0], events.DataLost)
    assert (1, 5) == (lost.offset, lost.next_offset)


@all_protocols
def test_what_is_out_of_range_is_reported_again(protocol: Protocol) -> None:
    """When the partition reads on already: nothing is begun again, and nothing said twice."""
    group = open_circuit(protocol)
    group.fake.delete_records(*P1, 5)
    group.dependency.down_for = set()
    until(group, lambda: (TOPIC, 1, 6) in [place for _, place in begun(group)])
    group.fake.faults.echo(P1)
    group.produce(1, 5)
    ends_well(group)
    assert 1 == len(emitted(group.members[0], events.DataLost))


@all_protocols
def test_an_exception_out_of_poll(protocol: Protocol) -> None:
    """What the poll had taken is gone with it: everything is sought again."""
    group = reading(protocol)
    for _ in range(4):
        group.fake.faults.raise_in_poll(RuntimeError("in poll"))
        with pytest.raises(RuntimeError, match="in poll"):
            group.turn()
        group.turn()
    ends_well(group)


@all_protocols
@pytest.mark.parametrize("call", ["pause", "resume", "assign", "unassign"])
def test_an_interrupt_inside_a_callback(protocol: Protocol, call: str) -> None:
    """A signal's handler raises in there: it comes out of the poll, and nothing is lost.

    The bug: raised in `assign`, the partitions were librdkafka's and not known to be ours, and all
    that came of them was dropped until the next rebalance.
    """
    group = open_circuit(protocol)
    if protocol != "eager" and call.endswith("assign"):
        call = f"incremental_{call}"
    group.join()
    group.fake.faults.raise_in_call(call, KeyboardInterrupt())
    group.share([1, 0])
    with pytest.raises(KeyboardInterrupt):
        group.turn(20)
    ends_well(group)
