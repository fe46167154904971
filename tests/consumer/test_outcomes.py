"""What is stored, opened and committed once it is known what came of a message?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Message

from linear_retry import Strategy, UsageError, events
from linear_retry.consumer.dead_letters.publisher import (
    Abandoned,
    Acknowledged,
    Answer,
    Letters,
    NotSent,
)
from linear_retry.consumer.operations.operator_actions import OperatorActions
from linear_retry.consumer.operations.requests import Requests
from linear_retry.consumer.outcomes import Applying, Choices
from linear_retry.consumer.partitions.commits import COMMIT_EVERY_S
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.records.dead_letter import DeadLetter
from linear_retry.retry.circuits import Held
from linear_retry.retry.decision import IsTransient, Policy
from linear_retry.scope import Scope
from tests.consumer.group import OutageError, PoisonError
from tests.consumer.joined_parts import Joined

_P0, _P1 = ("orders", 0), ("orders", 1)


class _Letters(Letters):
    """Sends nothing: something happens while an answer is awaited, and then it comes."""

    def __init__(self, meanwhile: Callable[[], object], answer: Answer) -> None:
        self._meanwhile = meanwhile
        self._answer = answer
        self.heard = 0

    @property
    def topic(self) -> str:
        return "orders.dlq"

    def send(self, held: Held, letter: DeadLetter) -> Answer:
        self._meanwhile()
        return self._answer

    def listen(self) -> None:
        self.heard += 1


class _Scene:
    """Two owned partitions, handled up to 5."""

    def __init__(self) -> None:
        self.joined = Joined({"group.protocol": "consumer"})
        self.parts = self.joined.parts
        self.joined.own(_P0, _P1, done=5)

    def applying(
        self,
        answer: Answer,
        meanwhile: Callable[[], object] = list,
        is_transient: IsTransient = lambda error: isinstance(error, OutageError),
    ) -> Applying:
        policy = Policy(Strategy([1]), "dead-letter", "dead-letter")
        choices = Choices(policy, is_transient, "consumer")
        operator_actions = OperatorActions(self.parts, Requests(), policy)
        letters = _Letters(meanwhile, answer)
        return Applying(self.parts, choices, FlowControl(self.parts), letters, operator_actions)

    def held(self) -> Held:
        message = Message(topic="orders", partition=0, offset=5, value=b"v")
        return Held(message, _P0, 5, self.parts.assignment.epoch_of(_P0) or 0)

    def goes_and_comes_back(self) -> None:
        self.parts.assignment.drop([_P0])
        self.parts.offsets.forget([_P0])
        self.joined.own(_P0)

    def commits(self) -> list[object]:
        return [given for name, given in self.joined.librdkafka.calls if name == "commit"]


def test_a_letter_for_an_ownership_that_is_over() -> None:
    """Acknowledged when its partition has gone, and come back: that is said, and nothing is stored
    in the new ownership, which begins where the group says."""
    scene = _Scene()
    applying = scene.applying(Acknowledged(), scene.goes_and_comes_back)
    applying.failed(scene.held(), PoisonError())
    assert [events.DeadLettered] == list(map(type, scene.joined.happened))
    assert scene.parts.offsets.next_offset(_P0) is None


def test_a_sending_that_fails_for_an_ownership_that_is_over() -> None:
    """No circuit holds a message that is another's: it would be attempted from memory."""
    scene = _Scene()
    applying = scene.applying(NotSent("down"), scene.goes_and_comes_back)
    applying.failed(scene.held(), PoisonError())
    assert [] == scene.joined.happened
    assert not scene.parts.circuits


def test_a_letter_that_is_not_awaited_any_more() -> None:
    """The consumer stops, and is perhaps gone on with: the message is in nobody's hands, so
    everything is fetched again from what is done."""
    scene = _Scene()
    scene.applying(Abandoned()).failed(scene.held(), PoisonError())
    assert scene.parts.read_ahead.is_invalid
    assert 5 == scene.parts.offsets.next_offset(_P0)
    assert [] == scene.joined.happened


def test_a_predicate_that_raises() -> None:
    """Decides nothing: neither a letter, nor a wait, and what it raised is the cause."""
    scene, bug = _Scene(), KeyError("oops")

    def predicate(_: BaseException) -> bool:
        raise bug

    applying = scene.applying(Acknowledged(), is_transient=predicate)
    with pytest.raises(UsageError, match="oops") as caught:
        applying.failed(scene.held(), OutageError())
    assert bug is caught.value.__cause__
    assert ([], 5) == (scene.joined.happened, scene.parts.offsets.next_offset(_P0))


def test_what_is_done_is_committed_where_a_circuit_opens() -> None:
    """At once, though the last commit was a moment ago: the wait may be long, and whoever looks at
    the group's lag meanwhile sees the message that is waited for. After pause and seek, which must
    not stand behind a commit that may fail."""
    scene = _Scene()
    applying = scene.applying(Acknowledged())
    applying.keep_house()
    scene.joined.acknowledge()
    scene.parts.offsets.done({_P1: 6})
    applying.failed(scene.held(), OutageError())
    assert Scope() in dict(scene.parts.circuits)
    assert ([("orders", 1, 6)], True) == scene.commits()[-1]
    assert ["commit", "pause", "seek", "seek", "commit"] == scene.joined.librdkafka.names


def test_once_a_second_what_is_done_is_committed_and_the_producer_heard() -> None:
    """Not with each turn, of which a busy loop has thousands."""
    scene = _Scene()
    applying = scene.applying(Acknowledged())
    for offset in range(6, 16):
        applying.keep_house()
        scene.joined.acknowledge()
        scene.parts.offsets.done({_P0: offset})
    assert 1 == len(scene.commits())
    scene.joined.clock.advance(COMMIT_EVERY_S)
    applying.keep_house()
    assert ([("orders", 0, 15)], True) == scene.commits()[1]
