"""A dead letter that is not acknowledged: when, where to and by whom it is sent again."""

from itertools import pairwise

import pytest
from confluent_kafka import KafkaError

from linear_retry import events
from linear_retry.consumer.ownership.requests import GiveUp
from tests.consumer.group import LETTERS, FakeGroup, Member
from tests.consumer.misbehaviours.misbehaving import (
    P0,
    emitted,
    ends_well,
    open_circuit,
    reading,
    until,
)


def _refusing(*partitions: int) -> tuple[FakeGroup, Member]:
    """The second message of each of these is about to be dead-lettered."""
    group = reading("eager", scope="partition")
    group.dependency.refuses = {(number, 1) for number in partitions}
    return group, group.members[0]


def _produced(group: FakeGroup) -> list[int]:
    """The partition of each letter that was handed to a producer; -1: the key decides."""
    calls = [(name, arguments) for _, _, name, arguments in group.fake.log]
    return [given[3] for name, given in calls if name == "produce" and given[0] == LETTERS]


def _letters(group: FakeGroup) -> list[int]:
    """How many are in each partition of the topic."""
    return [len(log.records) for log in group.fake.topics[LETTERS].partitions]


def test_when_the_sending_is_tried_again() -> None:
    """After 1, 2, 5, 10, 10 ... s: a broker that is down is not hammered, and one that is back is
    soon asked."""
    group, member = _refusing(0)
    group.fake.faults.fail_delivery(KafkaError._TRANSPORT, 6)
    until(group, lambda: emitted(member, events.DeadLettered))
    delays_s = [event.delay_s for event in emitted(member, events.DeadLetterFailed)]
    assert [1.0, 2.0, 5.0, 10.0, 10.0, 10.0] == delays_s
    ends_well(group)


def test_a_letter_that_an_operator_asked_for() -> None:
    """The word counts once: a sending that fails is tried again when the circuit says, as any."""
    group = open_circuit("eager", strategy=[60])
    (member,) = group.members
    group.fake.faults.fail_delivery(KafkaError._TRANSPORT, 4)
    answer = member.parts.requests.submit(GiveUp((P0, 1)))
    until(group, answer.done)
    failed = [(event.attempts, event.delay_s) for event in emitted(member, events.DeadLetterFailed)]
    assert [(1, 1.0), (2, 2.0), (3, 5.0), (4, 10.0)] == failed
    attempted_s = [at_s for at_s, _, name, _ in group.fake.log if name == "produce"]
    waited_s = [later - earlier for earlier, later in pairwise(attempted_s)]
    assert [1.0, 2.0, 5.0, 10.0] == pytest.approx(waited_s, abs=0.5)
    ends_well(group)


def test_the_consumer_is_polled_while_a_letter_is_awaited() -> None:
    """About once a second, as ever: forms that are too large, and transactions, add up."""
    group, member = _refusing(0)
    group.fake.faults.delivery_s = 8.0
    until(group, lambda: emitted(member, events.DeadLettered))
    group.turn()
    calls = ("poll", "consume")
    polled_s = [at_s for at_s, client, name, _ in group.fake.log if _is_of(client, name, calls)]
    assert max(later - earlier for earlier, later in pairwise(polled_s)) < 1.5
    ends_well(group)


def _is_of(client: str, name: str, calls: tuple[str, ...]) -> bool:
    return client.startswith("consumer") and name in calls


def test_another_producer_after_a_failure() -> None:
    """What the last one has in flight, and believes of the topic, goes with it."""
    group, member = _refusing(0)
    group.fake.faults.fail_delivery(KafkaError._MSG_TIMED_OUT, 2)
    until(group, lambda: emitted(member, events.DeadLettered))
    producers = {client for _, client, name, _ in group.fake.log if name == "produce"}
    assert 3 == len(producers)
    ends_well(group)


def test_a_topic_that_is_missing() -> None:
    """Nothing is handed to a producer, who would wait for half a minute each time, or have the
    broker create it; as soon as it is there the letter is sent."""
    group, member = _refusing(0)
    group.fake.delete_topic(LETTERS)
    until(group, lambda: len(emitted(member, events.DeadLetterFailed)) == 4)
    assert 1 == len(_produced(group))
    assert "does not exist" in emitted(member, events.DeadLetterFailed)[-1].error
    group.fake.create_topic(LETTERS, 2)
    ends_well(group)
    assert [1, 0] == _letters(group)


@pytest.mark.parametrize("number", [0, 1])
def test_the_partition_of_the_same_number(number: int) -> None:
    """Letters of one partition stay in order, whatever their keys are."""
    group, _ = _refusing(number)
    ends_well(group)
    assert [number] == _produced(group)
    assert 1 == _letters(group)[number]


def test_a_topic_with_fewer_partitions() -> None:
    """Made again while a letter could not be sent: it is asked how many it has now, and where the
    letter's is not among them, the key decides."""
    group, member = _refusing(1)
    group.fake.delete_topic(LETTERS)
    until(group, lambda: emitted(member, events.DeadLetterFailed))
    group.fake.create_topic(LETTERS, 1)
    ends_well(group)
    assert [1, -1] == _produced(group)
    assert [1] == _letters(group)


def test_a_producer_that_is_idle() -> None:
    """It is heard once a second: its errors would pile up, and its late answers."""
    group, member = _refusing(0)
    until(group, lambda: emitted(member, events.DeadLettered))
    until(group, group.all_done)
    before = len(group.fake.log)
    began_s = group.fake.clock.now_s()
    group.turn(30)
    polls = [at_s for at_s, client, name, _ in group.fake.log[before:] if _is_poll(client, name)]
    assert len(polls) >= int(group.fake.clock.now_s() - began_s) > 10


def _is_poll(client: str, name: str) -> bool:
    return client.startswith("producer") and name == "poll"
