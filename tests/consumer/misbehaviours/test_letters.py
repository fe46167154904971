"""The loop stands dead letters that are refused, not acknowledged, or acknowledged unheard."""

from collections import Counter

import pytest
from confluent_kafka import KafkaError

from linear_retry import FencedError, events
from linear_retry.testing import Entry, EventEmitted
from tests.consumer.group import GROUP, LETTERS, TOPIC, FakeGroup, Member, Protocol
from tests.consumer.misbehaviours.misbehaving import (
    P0,
    all_protocols,
    emitted,
    ends_well,
    reading,
    until,
)

TIMED_OUT = KafkaError(KafkaError._TIMED_OUT, "timed out", False, True)

both_ways = pytest.mark.parametrize("transactional", [False, True])


def refusing(protocol: Protocol, transactional: bool) -> tuple[FakeGroup, Member]:
    """The second message of the first partition is about to be dead-lettered."""
    group = reading(protocol, transactional=transactional)
    group.dependency.refuses = {(0, 1)}
    return group, group.members[0]


def letters(group: FakeGroup) -> Counter[bytes | None]:
    """How often each is there, by its id."""
    topic = group.fake.topics[LETTERS]
    return Counter(
        dict(record.headers or ())["retry-id"] for log in topic.partitions for record in log.records
    )


@all_protocols
@both_ways
@pytest.mark.parametrize(
    "code", [KafkaError._MSG_TIMED_OUT, KafkaError.NOT_ENOUGH_REPLICAS, KafkaError._TRANSPORT]
)
def test_a_failed_publish_is_not_a_success(
    protocol: Protocol, transactional: bool, code: int
) -> None:
    """The offset is stored after a report without an error, and not before."""
    group, member = refusing(protocol, transactional)
    group.fake.faults.fail_delivery(code, 3)
    until(group, lambda: 3 == len(emitted(member, events.DeadLetterFailed)))
    assert {} == letters(group)
    ends_well(group)
    assert [1] == list(letters(group).values())


@all_protocols
@both_ways
def test_a_timeout_is_ambiguous(protocol: Protocol, transactional: bool) -> None:
    """The record is there: sent once more it has the same id, in a transaction it never was."""
    group, _ = refusing(protocol, transactional)
    group.fake.faults.fail_delivery(KafkaError._MSG_TIMED_OUT, 2, lands=True)
    ends_well(group)
    assert [1 if transactional else 3] == list(letters(group).values())


@all_protocols
@both_ways
@pytest.mark.parametrize("lands", [False, True])
def test_no_report_ever_comes(protocol: Protocol, transactional: bool, lands: bool) -> None:
    """Not awaited for ever, though librdkafka always reports: held, reported, and sent again."""
    group, member = refusing(protocol, transactional)
    group.fake.faults.lose_report(lands=lands)
    ends_well(group)
    assert ["no delivery report came"] == [
        e.error for e in emitted(member, events.DeadLetterFailed)
    ]
    assert [2 if lands and not transactional else 1] == list(letters(group).values())


@all_protocols
@both_ways
def test_a_report_comes_late(protocol: Protocol, transactional: bool) -> None:
    """The member stays in its group meanwhile, nothing is paused, and nothing handed over."""
    group, member = refusing(protocol, transactional)
    group.fake.faults.delivery_s = 8.0
    until(group, lambda: emitted(member, events.DeadLettered))
    assert [] == emitted(member, events.CircuitOpened)
    ends_well(group)


@all_protocols
def test_a_report_comes_right_after_the_revoke(protocol: Protocol) -> None:
    """The letter is there, and so it is reported, though its message is another's by then, who will
    send one too. The bug: nobody was told."""
    group, member = refusing(protocol, transactional=False)
    group.fake.faults.delivery_s = 1.5
    heir = group.join()
    group.fake.clock.at(0.5, lambda: group.share([1, 1]))
    until(group, lambda: emitted(member, events.Revoked))
    assert 1 == len(emitted(member, events.DeadLettered))
    ends_well(group)
    assert 1 == len(emitted(heir, events.DeadLettered))
    assert [2] == list(letters(group).values())


@all_protocols
@pytest.mark.parametrize("listens_for_s", [0.0, 2.0])
def test_a_report_comes_when_the_partition_is_back(
    protocol: Protocol, listens_for_s: float
) -> None:
    """It went and came back while its letter was on the way: the message comes again, and is told
    of once, when its next letter is there. The bug: it was notified of twice in one ownership; also
    where the report came as a listener heard that the partition is back."""
    group, member = refusing(protocol, transactional=False)
    group.fake.faults.delivery_s = 1.5
    given = len(emitted(member, events.Assigned))

    def listen(entry: Entry) -> None:
        if isinstance(entry, EventEmitted) and isinstance(entry.event, events.Assigned):
            group.fake.clock.advance(listens_for_s)

    def goes_and_comes_back() -> None:
        group.fake.revoke(member.consumer)
        group.share([0, 0])

    group.witness.watch(listen)
    group.fake.clock.at(0.5, goes_and_comes_back)
    ends_well(group)
    assert given < len(emitted(member, events.Assigned))
    assert 1 == len(emitted(member, events.DeadLettered))
    assert [2] == list(letters(group).values())


@all_protocols
def test_a_report_comes_right_after_the_stop(protocol: Protocol) -> None:
    """It is said before `Stopped`. The bug: nobody was told, and the letter was there."""
    group, member = refusing(protocol, transactional=False)
    group.fake.faults.delivery_s = 3.0
    produced_s = group.fake.clock.now_s()
    group.fake.clock.at(0.5, member.stop.ask)
    while not member.stop.asked:
        member.turn()
    group.fake.clock.advance(produced_s + 3.5 - group.fake.clock.now_s())
    group.leave(member)
    last = [type(event) for event in member.events if not isinstance(event, events.Revoked)]
    assert [events.DeadLettered, events.Stopped] == last[-2:]
    assert [1] == list(letters(group).values())


@all_protocols
def test_a_report_comes_right_after_an_exception(protocol: Protocol) -> None:
    """As after a stop: it is there, and nobody waits for it any more."""
    group, member = refusing(protocol, transactional=False)
    group.fake.faults.delivery_s = 3.0
    group.fake.clock.at(0.5, lambda: group.fake.faults.raise_in_poll(RuntimeError("out of poll")))
    with pytest.raises(RuntimeError, match="out of poll"):
        group.turn(20)
    group.fake.clock.advance(3)
    group.leave(member)
    assert 1 == len(emitted(member, events.DeadLettered))


@all_protocols
@both_ways
def test_the_queue_is_full(protocol: Protocol, transactional: bool) -> None:
    """`produce` raises BufferError: the sending is tried again."""
    group, member = refusing(protocol, transactional)
    group.fake.faults.raise_in_produce(BufferError("Local: Queue full"), 2)
    ends_well(group)
    assert 2 == len(emitted(member, events.DeadLetterFailed))
    assert [1] == list(letters(group).values())


@all_protocols
@both_ways
def test_a_fatal_error(protocol: Protocol, transactional: bool) -> None:
    """The producer is of no more use: another one sends the letter."""
    group, _ = refusing(protocol, transactional)
    fatal = KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "out of order", True)
    group.fake.faults.break_producer(fatal, 2)
    ends_well(group)
    assert 3 == len(group.fake.producers)
    assert [1] == list(letters(group).values())


@all_protocols
def test_fenced(protocol: Protocol) -> None:
    """Only a producer of another's with our id could do that: raised, and nothing committed."""
    group, _ = refusing(protocol, transactional=False)
    group.fake.faults.break_producer(KafkaError(KafkaError._FENCED, "fenced", True))
    with pytest.raises(FencedError):
        group.turn(20)
    assert [] == group.violations(finished=False)


@all_protocols
@both_ways
def test_the_topic_is_gone(protocol: Protocol, transactional: bool) -> None:
    """Deleted: held and said, each time at once, until it is made again."""
    group, member = refusing(protocol, transactional)
    group.fake.delete_topic(LETTERS)
    until(group, lambda: len(emitted(member, events.DeadLetterFailed)) >= 3)
    assert 1 == len([call for _, _, call, _ in group.fake.log if call == "produce"])
    group.fake.create_topic(LETTERS, 1)
    ends_well(group)
    assert [1] == list(letters(group).values())


@all_protocols
@both_ways
def test_the_topic_takes_less(protocol: Protocol, transactional: bool) -> None:
    """Too large for the topic, and not for the producer: a smaller form, or it is held."""
    group, member = refusing(protocol, transactional)
    group.fake.topics[LETTERS].max_message_bytes = 300
    until(group, lambda: emitted(member, events.DeadLetterFailed))
    group.fake.topics[LETTERS].max_message_bytes = 1_000
    ends_well(group)
    assert [1] == list(letters(group).values())


@all_protocols
@pytest.mark.parametrize("call", ["send_offsets", "commit"])
@pytest.mark.parametrize("lands_s", [0.0, 0.5, 2.0, 9.0])
def test_a_request_lands_late(protocol: Protocol, call: str, lands_s: float) -> None:
    """Given up for unanswered, it arrives in the midst of the next transaction, or after it: that
    is another producer's, whom the broker knows from the one before."""
    group, _ = refusing(protocol, transactional=True)
    group.fake.faults.fail_transaction(call, TIMED_OUT, 40, lands_s=lands_s, takes_s=0.3)
    group.turn(12)
    group.fake.faults.forget_transactions()
    group.fake.clock.at(15, lambda: None)
    ends_well(group)
    group.fake.clock.advance(20)
    assert [1] == list(letters(group).values())
    assert 10 == group.fake.group(GROUP)[P0]


@all_protocols
def test_an_offset_lands_in_another_transaction(protocol: Protocol) -> None:
    """It was not answered in time, so its letter was aborted; it arrives in the midst of the next
    letter's transaction, and is not committed with that: its own letter is not there yet."""
    group = reading(protocol, transactional=True, scope="partition")
    (member,) = group.members
    group.dependency.refuses = {(0, 1), (1, 1)}
    group.fake.faults.fail_transaction("send_offsets", TIMED_OUT, 40, lands_s=8.0, takes_s=0.25)
    until(group, lambda: emitted(member, events.DeadLetterFailed))
    (failed,) = emitted(member, events.DeadLetterFailed)
    group.fake.faults.forget_transactions()
    group.fake.faults.delivery_s = 6.0
    until(group, lambda: emitted(member, events.DeadLettered))
    (sent,) = emitted(member, events.DeadLettered)
    assert failed.partition != sent.partition
    assert 1 == group.fake.group(GROUP)[TOPIC, failed.partition]
    ends_well(group)


@all_protocols
def test_lost_in_the_midst_of_it(protocol: Protocol) -> None:
    """The zombie's letter is refused with its offset; its heir sends the only one."""
    group, zombie = refusing(protocol, transactional=True)
    heir = group.join()
    group.fake.faults.delivery_s = 3.0

    def lose() -> None:
        group.fake.lose(zombie.consumer, after=3)
        group.share([1, 1])

    group.fake.clock.at(1.0, lose)
    ends_well(group)
    assert (0, 1) == (
        len(emitted(zombie, events.DeadLettered)),
        len(emitted(heir, events.DeadLettered)),
    )
    assert [1] == list(letters(group).values())
