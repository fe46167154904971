"""What joins the read-ahead, what is fetched again, and what is dropped."""

from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from linear_retry.errors import DataLossError
from linear_retry.events import DataLost, LeakDropped
from linear_retry.retry.case import Failing, Held
from linear_retry.scope import Scope
from tests.consumer.joined_parts import Joined

_P0 = ("orders", 0)


def _edges(asked: list[TopicPartition], timeout: float) -> list[TopicPartition]:
    edges = {OFFSET_BEGINNING: 3, OFFSET_END: 9}
    return [TopicPartition(item.topic, item.partition, edges[item.offset]) for item in asked]


class _Scene:
    """One owned partition, of which nothing is known yet; the broker has its offsets 3 to 8."""

    def __init__(self, **config: Any) -> None:
        self.joined = Joined({"group.protocol": "consumer"} | config)
        self.offset_check = self.joined.offset_check()
        self.delivery_filter = self.joined.delivery_filter(self.offset_check)
        self.joined.librdkafka.answers |= {
            "assignment": [],
            "offsets_for_times": _edges,
            "commit": None,
        }
        self.joined.own(_P0)

    def arrive(self, *arrivals: Message) -> None:
        self.delivery_filter.accept(list(arrivals))

    def hold(self, offset: int) -> None:
        """It has failed, and its circuit is open."""
        self.joined.read_ahead.drop(lambda _: True)
        held = Held(_message(offset), _P0, offset, epoch=1)
        self.joined.circuits.open(Scope(), Failing(held), self.joined.clock.now_s(), 60.0, 0)

    @property
    def let_in(self) -> list[int | None]:
        return [message.offset() for message in self.joined.read_ahead.messages]

    def calls(self, name: str) -> list[Any]:
        return [arguments for call, arguments in self.joined.librdkafka.calls if call == name]


def _message(offset: int) -> Message:
    return Message(topic="orders", partition=0, offset=offset)


def _reported(code: int, offset: int = OFFSET_INVALID) -> Message:
    """An error about the partition; without an offset: that none is committed."""
    error = KafkaError(code, "told by a test")
    return Message(topic="orders", partition=0, offset=offset, error=error)


@pytest.mark.filterwarnings("ignore:auto.offset.reset=latest")
@pytest.mark.parametrize(("reset", "begins"), [("earliest", 3), ("latest", 9)])
def test_the_first_offset_is_committed_before_its_message_is_let_in(
    reset: str, begins: int
) -> None:
    """Synchronously: with `latest` whoever has the partition next would begin at the end, if the
    member died in the handler, and lose the message."""
    scene = _Scene(**{"auto.offset.reset": reset})
    scene.arrive(_reported(KafkaError._AUTO_OFFSET_RESET))
    assert [] == scene.calls("commit")
    scene.arrive(_message(begins))
    assert [([("orders", 0, begins)], False)] == scene.calls("commit")
    assert [begins] == scene.let_in
    scene.arrive(_message(begins + 1))
    assert 1 == len(scene.calls("commit"))


def test_a_first_commit_that_is_refused_for_now() -> None:
    """The message is not let in: it is sought, comes again, and is committed then."""
    scene = _Scene()
    scene.arrive(_reported(KafkaError._AUTO_OFFSET_RESET))
    refusal = KafkaException(KafkaError(KafkaError.REBALANCE_IN_PROGRESS, "not now"))
    scene.joined.librdkafka.answers["commit"] = refusal
    scene.arrive(_message(3))
    assert [] == scene.let_in
    assert [("orders", 0, 3)] == scene.calls("seek")
    scene.joined.librdkafka.answers["commit"] = None
    scene.arrive(_message(3))
    assert [3] == scene.let_in


@pytest.mark.parametrize("offset", [OFFSET_INVALID, 1])
def test_with_error_a_lost_place_is_raised(offset: int) -> None:
    """None committed, or not there any more: whoever chose `error` decides where it goes on."""
    scene = _Scene(**{"auto.offset.reset": "error"})
    with pytest.raises(DataLossError, match=r"orders\[0\]"):
        scene.arrive(_reported(KafkaError._AUTO_OFFSET_RESET, offset))
    assert [] == scene.calls("incremental_assign")


@pytest.mark.parametrize("holds", [False, True])
def test_it_begins_where_the_broker_says(holds: bool) -> None:
    """At a number, also while a message before it is held: begun "at the beginning", librdkafka
    2.16 may go back there later."""
    scene = _Scene()
    if holds:
        scene.arrive(_message(1))
        scene.hold(1)
    scene.arrive(_reported(KafkaError._AUTO_OFFSET_RESET, 1))
    assert [[("orders", 0, 3)]] == scene.calls("incremental_assign")
    assert [DataLost("orders", 0, offset=1, next_offset=3)] == scene.joined.happened


def test_a_loss_leaves_alone_what_is_in_memory() -> None:
    """Messages that were read before retention removed them are handled first, from memory, and
    are done one after another; then it goes on where the broker begins."""
    scene = _Scene()
    scene.arrive(_message(0), _message(1))
    scene.arrive(_reported(KafkaError._AUTO_OFFSET_RESET, 2))
    scene.arrive(_message(3))
    assert [0, 1, 3] == scene.let_in
    assert 0 == scene.joined.offsets.next_offset(_P0)


def test_the_end_of_what_leaks_is_no_beginning() -> None:
    """The place behind a held message is lost, so any first offset is believed. But the end of a
    partition that stands still comes behind messages that leaked and were dropped: begun there, it
    would be committed, and they would never come again."""
    scene = _Scene()
    scene.arrive(_message(1))
    scene.hold(1)
    scene.arrive(_reported(KafkaError._AUTO_OFFSET_RESET, 1))
    leaked = [_message(offset) for offset in range(3, 9)]
    scene.arrive(*leaked, _reported(KafkaError._PARTITION_EOF, 9))
    dropped = [one.offset for one in scene.joined.happened if isinstance(one, LeakDropped)]
    assert list(range(3, 9)) == dropped
    assert {_P0: 1} == scene.joined.offsets.uncommitted()
    assert {_P0: 3} == scene.joined.offsets.starts()


def test_the_end_counts_as_a_delivery() -> None:
    """Sought again, a partition with nothing but transaction markers behind its last message says
    that it is at its end, and where. The broker's end is above our next offset for ever: by that
    the partition would be dead, and begun again again and again."""
    scene = _Scene()
    scene.arrive(_message(5))
    scene.joined.assignment.expect(_P0)
    for _ in range(2):  # the first is doubted, as any jump
        assert scene.joined.assignment.is_silent(_P0)
        scene.arrive(_reported(KafkaError._PARTITION_EOF, 8))
    assert not scene.joined.assignment.is_silent(_P0)
    assert [5] == scene.let_in
    assert 5 == scene.joined.offsets.next_offset(_P0)


def test_the_end_is_behind_what_is_in_memory() -> None:
    """Messages that are to be handled come before it, and the one whose letter is awaited: nothing
    but what is done is committed, whatever is behind it."""
    scene = _Scene()
    scene.arrive(*_of(0, 4, 5), _reported(KafkaError._PARTITION_EOF, 8))
    assert {_P0: 4} == scene.joined.offsets.uncommitted()
    scene.joined.read_ahead.drop(lambda _: True)
    scene.joined.offsets.done({_P0: 5})
    scene.joined.read_ahead.in_hand = _P0, 5
    scene.arrive(_reported(KafkaError._PARTITION_EOF, 8))
    assert {_P0: 5} == scene.joined.offsets.uncommitted()
    scene.joined.read_ahead.in_hand = None
    scene.joined.offsets.done({_P0: 6})
    assert {_P0: 8} == scene.joined.offsets.uncommitted()


def test_an_end_says_nothing_of_what_is_read_again() -> None:
    """What was in memory is fetched again, for whatever reason: it is neither done nor passed."""
    scene = _Scene()
    scene.arrive(*_of(0, 4, 5), _reported(KafkaError._PARTITION_EOF, 6))
    scene.joined.read_ahead.invalidate()
    scene.joined.flow_control.reposition()
    scene.arrive(_reported(KafkaError._PARTITION_EOF, 6))  # where it is not, at first sight
    scene.arrive(_message(4))
    assert {_P0: 4} == scene.joined.offsets.uncommitted()


def test_an_end_does_not_pass_what_was_dropped() -> None:
    """Nothing of the partition is in memory, so its end is next to what is done. But more of it has
    arrived, and is not done: even if it were never sought again, it must not be committed."""
    scene = _Scene()
    scene.arrive(*_of(0, 4, 5))
    scene.joined.read_ahead.drop(lambda _: True)
    scene.arrive(_reported(KafkaError._PARTITION_EOF, 8))
    assert {_P0: 4} == scene.joined.offsets.uncommitted()


def _of(partition: int, *offsets: int) -> list[Message]:
    return [Message(topic="orders", partition=partition, offset=offset) for offset in offsets]


@pytest.mark.parametrize(
    ("again", "let_in"),
    [
        (_of(0, 1, 2, 3), []),
        (_of(0, 3, 1, 2, 3, 4), [4]),
        (_of(0, 3, 4), [4]),
        ([*_of(1, 8), *_of(0, 3, 4)], [8, 4]),
        ([*_of(1, 8), *_of(0, 2, 3, 4)], [8, 4]),
        ([*_of(0, 2, 3), _reported(KafkaError._PARTITION_EOF, 4)], []),
    ],
)
def test_what_has_arrived_is_dropped_when_it_comes_again(
    again: list[Message], let_in: list[int]
) -> None:
    """Nothing was assigned, resumed or sought: librdkafka went back by itself, and reads on."""
    scene = _Scene()
    scene.joined.own(_P0, ("orders", 1))
    scene.arrive(*_of(0, 1, 2), *_of(1, 7))
    scene.arrive(*_of(0, 3))
    scene.arrive(*again)
    scene.arrive(*_of(0, 5, 6), *_of(1, 9))
    assert [1, 2, 7, 3, *let_in, 5, 6, 9] == scene.let_in
    assert [] == scene.calls("seek")


@pytest.mark.parametrize("again", [_of(0, 3, 4), _of(1, 8, 9), [*_of(0, 4), *_of(1, 8, 9)]])
def test_what_has_arrived_in_a_batch_of_several_partitions(again: list[Message]) -> None:
    """It counts like any other: when it comes again, it is dropped."""
    scene = _Scene()
    scene.joined.own(_P0, ("orders", 1))
    scene.arrive(*_of(0, 1), *_of(1, 7))
    scene.arrive(*_of(0, 2, 3), *_of(1, 8))
    scene.arrive(*again)
    scene.arrive(*_of(0, 5), *_of(1, 10))
    new = [one.offset() for one in again if one.offset() in (4, 9)]
    assert [1, 7, 2, 3, 8, *new, 5, 10] == scene.let_in


def test_what_was_read_in_an_earlier_assignment_is_read_again() -> None:
    """Somebody has set the group's offset back meanwhile; the end of the partition comes first."""
    scene = _Scene()
    scene.arrive(_message(500))
    scene.arrive(_message(501))
    scene.joined.flow_control.forget([_P0])
    scene.joined.own(_P0)
    scene.arrive(_reported(KafkaError._PARTITION_EOF, 100))
    scene.arrive(_message(100))
    scene.arrive(_message(102), _message(103))  # with a gap, as after compaction
    scene.arrive(*_of(0, 104, 105))
    assert [100, 102, 103, 104, 105] == scene.let_in
