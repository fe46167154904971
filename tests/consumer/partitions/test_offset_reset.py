"""Where a partition begins whose offset the broker does not have."""

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException, TopicPartition

from linear_retry import events
from tests.consumer.group import GROUP, FakeGroup, Protocol
from tests.consumer.joined_parts import Joined
from tests.consumer.misbehaviours.misbehaving import P0, P1, all_protocols, begun, emitted

_LOW = 5


def _lost_everywhere(protocol: Protocol, reset: str, partitions: int) -> FakeGroup:
    """A group whose committed offsets retention has removed, in each partition."""
    group = FakeGroup(protocol=protocol, partitions=partitions, config={"auto.offset.reset": reset})
    for topic, number in group.partitions:
        group.produce(number, 10)
        del group.visible[topic, number][: 2 if reset == "earliest" else 10]
        group.fake.group(GROUP)[topic, number] = 2
        group.fake.delete_records(topic, number, _LOW)
    group.join()
    group.share([0] * partitions)
    return group


def _logical_starts(group: FakeGroup) -> list[int]:
    """Each time a partition was begun "at the beginning" or "at the end"."""
    return [
        offset
        for _, _, call, arguments in group.fake.log
        if call in ("assign", "incremental_assign")
        for _, _, offset in arguments[0]
        if offset in (OFFSET_BEGINNING, OFFSET_END)
    ]


@all_protocols
@pytest.mark.filterwarnings("ignore:auto.offset.reset=latest")
@pytest.mark.parametrize("reset", ["earliest", "latest"])
@pytest.mark.parametrize("unanswered", [1, 2, 5])
def test_nobody_says_where_it_begins(protocol: Protocol, reset: str, unanswered: int) -> None:
    """The brokers are asked again, and nothing is begun before they answer.

    The bug: it was begun "at the beginning" or "at the end" then, and with an eager assignment of
    several partitions librdkafka went there once more half a second later: what had been handled
    was handled again, or what had come meanwhile was passed over.
    """
    group = _lost_everywhere(protocol, reset, 3)
    group.fake.faults.silence_edges(unanswered)
    group.turn(40)
    group.fake.clock.advance(0.6)
    for _, number in group.partitions:
        group.produce(number, 3)
    group.finish()
    assert [] == group.violations()
    places = [place for _, place in begun(group)]
    assert sorted(set(places)) == sorted(places)
    assert [] == _logical_starts(group)
    assert 3 == len(emitted(group.members[0], events.DataLost))


def test_an_offset_made_of_garbage() -> None:
    """It is above what comes next, which the broker has: no loss, reading goes on where it was."""
    joined = Joined({"group.protocol": "consumer"})
    joined.own(P0, done=5)
    ends = {OFFSET_BEGINNING: 0, OFFSET_END: 9}
    joined.librdkafka.answers |= {
        "assignment": [TopicPartition(*P0)],
        "offsets_for_times": lambda asked, timeout: [TopicPartition(*P0, ends[asked[0].offset])],
    }
    joined.offset_reset().lost(P0, 8680820740569200761)
    assert [] == joined.happened
    assert 5 == joined.offsets.next_offset(P0)
    assert ("incremental_assign", [(*P0, 5)]) in joined.librdkafka.calls


class _Silent:
    """Two partitions that are ours, of which no broker says where they begin."""

    def __init__(self) -> None:
        self.joined = Joined({"group.protocol": "consumer"})
        self.flow_control = self.joined.flow_control
        self.offset_reset = self.joined.offset_reset()
        self.joined.own(P0, P1)
        silent = KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer"))
        self.joined.librdkafka.answers["offsets_for_times"] = silent

    @property
    def questions(self) -> int:
        return self.joined.librdkafka.names.count("offsets_for_times")


def test_one_question_without_an_answer_at_a_time() -> None:
    """It takes a second, in which nothing is polled: of a hundred partitions that have lost their
    places at once a hundred questions in a row might cost the member its place in the group."""
    silent = _Silent()
    for partition in (P0, P1):
        silent.offset_reset.lost(partition, None)
    assert 1 == silent.questions
    for asked in (2, 3):
        silent.joined.clock.advance(60)
        silent.offset_reset.ask_again()
        assert asked == silent.questions


def test_it_was_reassigned_meanwhile() -> None:
    """By the watchdog, or with another one: librdkafka says by itself whether it still lacks its
    place, and what has gone on since is not set back."""
    silent = _Silent()
    silent.offset_reset.lost(P0, None)
    silent.flow_control.revive(P0, "it has messages, but delivered none")
    silent.joined.clock.advance(60)
    silent.offset_reset.ask_again()
    assert 1 == silent.questions
