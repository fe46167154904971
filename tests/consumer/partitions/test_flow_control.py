"""The order of pauses, resumes and seeks, and what follows a refused one."""

from typing import Any

import pytest
from confluent_kafka import OFFSET_STORED, KafkaError, KafkaException, Message, TopicPartition

from linear_retry.events import Lost, PartitionRevived
from linear_retry.kafka.consumer.messages import partition_of
from linear_retry.retry.case import Failing, Held
from linear_retry.scope import Partition, Scope
from tests.consumer.joined_parts import Joined

_P0, _P1 = ("orders", 0), ("orders", 1)


class _Scene:
    """Two partitions that are ours, assigned, and handled up to 5."""

    def __init__(
        self, *, assigned: tuple[Partition, ...] = (_P0, _P1), protocol: str = "consumer"
    ) -> None:
        self.joined = Joined({"group.protocol": protocol})
        self.flow_control = self.joined.flow_control
        self.joined.own(_P0, _P1, done=5)
        items = [TopicPartition(*partition) for partition in assigned]
        self.joined.librdkafka.answers["assignment"] = items

    def refusing(self, call: str, code: int) -> None:
        self.joined.librdkafka.answers[call] = KafkaException(KafkaError(code, "refused"))

    def calls(self, *names: str) -> list[tuple[str, Any]]:
        return [call for call in self.joined.librdkafka.calls if call[0] in names]


def _bare(*partitions: Partition) -> list[tuple[str, int, int]]:
    return [(*partition, -1001) for partition in partitions]


def test_pause_then_seek() -> None:
    """librdkafka forgets a seek that a pause follows (librdkafka #3471)."""
    scene = _Scene()
    scene.flow_control.pause(Scope())
    assert [
        ("pause", _bare(_P0, _P1)),
        ("seek", (*_P0, 5)),
        ("seek", (*_P1, 5)),
    ] == scene.joined.librdkafka.calls


def test_resume_then_seek() -> None:
    """So librdkafka fetches at once; after a resume alone, or before one, it takes up to a
    second."""
    scene = _Scene()
    scene.flow_control.resume(Scope())
    assert [
        ("resume", _bare(_P0, _P1)),
        ("seek", (*_P0, 5)),
        ("seek", (*_P1, 5)),
    ] == scene.joined.librdkafka.calls


def test_each_gets_the_pause_state_of_its_circuit() -> None:
    """What a circuit stops is paused, all else is resumed, whatever it was before: the pause
    outlives a revoke (confluent-kafka-go #193), and what is new is not paused."""
    scene = _Scene()
    held = Held(Message(topic="orders", partition=0, offset=5), _P0, 5, epoch=1)
    scene.joined.circuits.open(Scope(*_P0), Failing(held), scene.joined.clock.now_s(), 60.0, 0)
    scene.flow_control.apply_pause_state([_P0, _P1])
    assert [
        ("pause", _bare(_P0)),
        ("resume", _bare(_P1)),
    ] == scene.joined.librdkafka.calls


@pytest.mark.parametrize("code", [KafkaError._STATE, KafkaError._TIMED_OUT])
def test_a_seek_that_fails_for_what_is_assigned(code: int) -> None:
    """It begins again at its next offset (librdkafka #2190): a resume would skip what failed."""
    scene = _Scene()
    scene.refusing("seek", code)
    scene.flow_control.seek([_P0])
    assert [("incremental_assign", [(*_P0, 5)])] == scene.calls("incremental_assign")
    assert [PartitionRevived] == list(map(type, scene.joined.happened))


@pytest.mark.parametrize(
    ("code", "assigned"),
    [(KafkaError._STATE, (_P1,)), (KafkaError._UNKNOWN_PARTITION, (_P0, _P1))],
)
def test_a_seek_that_fails_for_what_is_not(code: int, assigned: tuple[Partition, ...]) -> None:
    """Not any more, or never: it is given up, with all that is known of it; the other is not."""
    scene = _Scene(assigned=assigned)
    scene.refusing("seek", code)
    scene.flow_control.seek([_P0])
    (lost,) = scene.joined.happened
    assert isinstance(lost, Lost)
    assert (_P0,) == lost.partitions
    assert (_P1,) == scene.joined.assignment.partitions
    assert {_P1: 5} == scene.joined.offsets.uncommitted()
    assert [] == scene.calls("incremental_assign")


@pytest.mark.parametrize("assigned", [True, False])
def test_what_we_gave_up_ourselves(assigned: bool) -> None:
    """Is taken back while librdkafka has it still, from what is committed; else it is another's,
    and assigned by us it would be read by both."""
    scene = _Scene(assigned=(_P0, _P1) if assigned else (_P1,))
    scene.flow_control.mark_lost([_P0], "no poll for too long")
    scene.flow_control.reclaim([_P0])
    assert assigned == (_P0 in scene.joined.assignment)
    begun = [("incremental_assign", [(*_P0, OFFSET_STORED)])]
    assert (begun if assigned else []) == scene.calls("incremental_assign")
    scene.joined.clock.advance(60)
    assert [] == scene.joined.assignment.reclaimable()


@pytest.mark.parametrize(
    ("protocol", "keep_ahead", "stays"),
    [
        ("consumer", False, [_P1]),
        ("consumer", True, [_P0, _P1]),
        ("classic", False, []),
        ("classic", True, [_P0]),
    ],
)
def test_what_is_reassigned_comes_again(
    protocol: str, keep_ahead: bool, stays: list[Partition]
) -> None:
    """What was read of it is dropped, or it would be handled twice; with an eager assignment all
    begins again. Only what retention has removed does not come again: that is kept."""
    scene = _Scene(protocol=protocol)
    ahead = [Message(topic=topic, partition=number, offset=5) for topic, number in (_P0, _P1)]
    scene.joined.read_ahead.keep(ahead)
    scene.flow_control.reassign(_P0, keep_ahead=keep_ahead)
    assert stays == [partition_of(message) for message in scene.joined.read_ahead.messages]


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_what_is_reassigned_gets_its_pause_state(protocol: str) -> None:
    """An assignment clears no pause and keeps none: what a circuit stops is paused once more."""
    scene = _Scene(protocol=protocol)
    held = Held(Message(topic="orders", partition=0, offset=5), _P0, 5, epoch=1)
    scene.joined.circuits.open(Scope(*_P0), Failing(held), scene.joined.clock.now_s(), 60.0, 0)
    scene.flow_control.reassign(_P0)
    assert [("pause", _bare(_P0))] == scene.calls("pause")
    assert ([("resume", _bare(_P1))] if protocol == "classic" else []) == scene.calls("resume")


def test_what_is_held_back_stays_paused() -> None:
    """An assignment resumes all but what a circuit stops, and what has enough in memory: that would
    be read on and on."""
    scene = _Scene()
    scene.flow_control.hold_back(_P0)
    scene.joined.librdkafka.calls.clear()
    scene.flow_control.apply_pause_state([_P0, _P1])
    assert [("pause", _bare(_P0)), ("resume", _bare(_P1))] == scene.joined.librdkafka.calls


def test_what_is_held_back_begins_anew() -> None:
    """Where its memory is gone, with a circuit or with the partition, it is held back no more."""
    scene = _Scene()
    scene.flow_control.hold_back(_P0)
    scene.flow_control.pause(Scope(*_P0))
    assert frozenset() == scene.flow_control.held_back
    scene.flow_control.hold_back(_P1)
    scene.flow_control.forget([_P1])
    assert frozenset() == scene.flow_control.held_back


def test_let_go_while_a_circuit_is_open() -> None:
    """The circuit resumes it when it closes: until then its messages would be dropped as leaks."""
    scene = _Scene()
    held = Held(Message(topic="orders", partition=0, offset=5), _P0, 5, epoch=1)
    scene.joined.circuits.open(Scope(*_P0), Failing(held), scene.joined.clock.now_s(), 60.0, 0)
    scene.flow_control.hold_back(_P0)
    scene.joined.librdkafka.calls.clear()
    scene.flow_control.let_go(_P0)
    assert ([], frozenset()) == (scene.joined.librdkafka.calls, scene.flow_control.held_back)


def test_let_go() -> None:
    """Resume, then seek: librdkafka dropped at the pause what it had not delivered yet."""
    scene = _Scene()
    scene.flow_control.hold_back(_P0)
    scene.joined.librdkafka.calls.clear()
    scene.flow_control.let_go(_P0)
    assert ["resume", "seek"] == [name for name, _ in scene.joined.librdkafka.calls]
