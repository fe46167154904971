"""What follows an attempt: what is stored, opened, sent and committed."""

from collections.abc import Callable, Generator

import pytest
from confluent_kafka import Message

from linear_retry import Strategy, events
from linear_retry.consumer.attempts.outcomes import Outcomes, Partitions
from linear_retry.consumer.letters.publisher import DeadLetterPublisher
from linear_retry.consumer.partitions.offsets import COMMIT_EVERY_S
from linear_retry.records.lineage import Line
from linear_retry.records.record import Record
from linear_retry.retry.case import Held, Leaving
from linear_retry.retry.decision import Policy, RetrySettings
from linear_retry.retry.engine import Abandoned, Acknowledged, Answer, NotSent
from linear_retry.scope import Scope
from tests.consumer.group import OutageError, PoisonError
from tests.consumer.joined_parts import Joined, driven

_P0, _P1 = ("orders", 0), ("orders", 1)


_SETTINGS = RetrySettings(
    Policy(Strategy([1]), dead_letters="orders.dlq"),
    lambda error: isinstance(error, OutageError),
    "consumer",
)


class _Publisher(DeadLetterPublisher):
    """Sends nothing: something happens while an answer is awaited, and then it comes."""

    topic = "orders.dlq"

    def __init__(self, meanwhile: Callable[[], object], answer: Answer) -> None:
        self._meanwhile = meanwhile
        self._answer = answer

    def poll(self) -> None:
        """There is no producer."""

    def send(
        self, leaving: Leaving[Message], read: Callable[[], Record]
    ) -> Generator[bool, None, Answer]:
        yield True
        self._meanwhile()
        return self._answer


class Scene:
    """Two owned partitions, handled up to 5."""

    def __init__(self) -> None:
        self.joined = Joined({"group.protocol": "consumer"})
        self.joined.own(_P0, _P1, done=5)

    def outcomes(
        self,
        answer: Answer | None = None,
        meanwhile: Callable[[], object] = list,
        settings: RetrySettings = _SETTINGS,
        emit: Callable[[events.Event], None] | None = None,
    ) -> Outcomes:
        publisher = _Publisher(meanwhile, answer or Acknowledged())
        joined = self.joined
        return Outcomes(
            Line("billing"),
            Partitions(
                joined.assignment,
                joined.offsets,
                joined.read_ahead,
                joined.flow_control,
                joined.commits,
            ),
            publisher,
            None,
            joined.operator_actions(settings.policy),
            settings,
            emit or joined.emit,
        )

    def fails(self, outcomes: Outcomes, error: Exception) -> None:
        """An attempt of the next message; then what the loop does until its letter is answered."""
        message = Message(topic="orders", partition=0, offset=5, value=b"v")
        epoch = self.joined.assignment.epochs.get(_P0) or 0
        outcomes.failed(Held(message, _P0, 5, epoch), error)
        leaving = outcomes.take_leaving()
        if leaving is not None:
            driven(outcomes.send(leaving))

    def goes_and_comes_back(self) -> None:
        self.joined.assignment.drop([_P0])
        self.joined.offsets.forget([_P0])
        self.joined.own(_P0)

    def commits(self) -> list[object]:
        return [given for name, given in self.joined.librdkafka.calls if name == "commit"]


def test_a_letter_for_an_ownership_that_is_over() -> None:
    """Acknowledged when its partition has gone and come back: that is reported, nothing is stored
    in the new ownership, which begins where the group says."""
    scene = Scene()
    scene.fails(scene.outcomes(Acknowledged(), scene.goes_and_comes_back), PoisonError())
    assert [events.DeadLettered] == list(map(type, scene.joined.happened))
    assert scene.joined.offsets.next_offset(_P0) is None


def test_a_sending_that_fails_for_an_ownership_that_is_over() -> None:
    """No circuit holds a message that is another's: it would be attempted from memory."""
    scene = Scene()
    scene.fails(scene.outcomes(NotSent("down"), scene.goes_and_comes_back), PoisonError())
    assert [] == scene.joined.happened
    assert scene.joined.circuits.all_closed


def test_a_letter_that_is_not_awaited_any_more() -> None:
    """The consumer stops, and is perhaps gone on with: the message is in nobody's hands, so
    everything is fetched again from what is done."""
    scene = Scene()
    scene.fails(scene.outcomes(Abandoned()), PoisonError())
    assert scene.joined.read_ahead.is_invalid
    assert 5 == scene.joined.offsets.next_offset(_P0)
    assert [] == scene.joined.happened


def test_what_is_done_is_committed_where_a_circuit_opens() -> None:
    """At once, though the last commit was a moment ago: the wait may be long, and whoever looks at
    the group's lag meanwhile sees the message that is waited for. After pause and seek, which must
    not stand behind a commit that may fail."""
    scene = Scene()
    outcomes = scene.outcomes()
    outcomes.tick()
    scene.joined.acknowledge()
    scene.joined.offsets.done({_P1: 6})
    scene.fails(outcomes, OutageError())
    assert Scope() in dict(scene.joined.circuits)
    assert ([("orders", 1, 6)], True) == scene.commits()[-1]
    assert ["commit", "pause", "seek", "seek", "commit"] == scene.joined.librdkafka.names


def test_once_a_second_what_is_done_is_committed_and_the_producer_polled() -> None:
    """Not with each turn, of which a busy loop has thousands."""
    scene = Scene()
    outcomes = scene.outcomes()
    commits, clock = outcomes.partitions.commits, scene.joined.clock
    for offset in range(6, 16):
        if commits.due_at_s <= clock.now_s():
            outcomes.tick()
        scene.joined.acknowledge()
        scene.joined.offsets.done({_P0: offset})
    assert 1 == len(scene.commits())
    clock.advance(COMMIT_EVERY_S)
    assert commits.due_at_s <= clock.now_s()
    outcomes.tick()
    assert ([("orders", 0, 15)], True) == scene.commits()[1]


def test_a_listener_that_ends_the_program_as_a_circuit_is_dropped() -> None:
    """What it was told is so. The bug: the partitions stayed paused, and nothing resumed them."""
    scene = Scene()
    scene.fails(scene.outcomes(), OutageError())

    def leave(event: events.Event) -> None:
        raise SystemExit(str(event))

    with pytest.raises(SystemExit, match="dropped"):
        scene.outcomes(emit=leave).drop(Scope())
    assert ["resume", "seek", "seek"] == scene.joined.librdkafka.names[-3:]
