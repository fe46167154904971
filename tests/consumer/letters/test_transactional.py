"""One transaction, step by step: what is asked of the producer and of the group."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from linear_retry import BrokerError
from linear_retry.consumer.letters.publisher import AckWait
from linear_retry.consumer.letters.transactional import TransactionalDelivery
from linear_retry.consumer.ownership.stop import StopFlag
from linear_retry.kafka.producers.transactional import TransactionalProducer
from linear_retry.records.record import OutgoingRecord
from linear_retry.retry.case import Held
from linear_retry.retry.engine import Abandoned, Acknowledged, NotSent
from tests.consumer.joined_parts import Joined, driven
from tests.recording_consumer import RecordingConsumer

_P0, _P1 = ("orders", 0), ("orders", 1)
_RECORD = OutgoingRecord("dlq", b"key", b"value")


def _refused(code: int, *, abortable: bool = False) -> KafkaException:
    return KafkaException(KafkaError(code, "refused", False, False, abortable))


class _Scene:
    """Two owned partitions, handled up to 5, and the letter of the next message of the first."""

    def __init__(self) -> None:
        self.joined = Joined({"group.protocol": "consumer"})
        self.joined.own(_P0, _P1, done=5)
        self.joined.client.member.metadata = "billing's member"
        self.librdkafka = RecordingConsumer({})
        self.librdkafka.answers["produce"] = self.reporting()
        self.producer = TransactionalProducer("orders.dlq", {}, lambda _: self.librdkafka)
        self.in_a_poll: Callable[[], None] = lambda: None
        wait = AckWait(
            *(self.joined.clock, self.joined.assignment.epochs, StopFlag()),
            answer_within_s=30.0,
        )
        self.delivery = TransactionalDelivery(
            self.joined.client,
            self.producer,
            wait,
            self.joined.flow_control,
            lambda _, offset: (offset + 1, ""),
            transaction_timeout_s=10.0,
            start_timeout_s=10.0,
        )
        epoch = self.joined.assignment.epochs.get(_P0) or 0
        self.held = Held(Message(topic="orders", partition=0, offset=5), _P0, 5, epoch)

    def reporting(self, meanwhile: Callable[[], object] = list) -> Callable[..., None]:
        """A `produce` that is reported at once, `meanwhile` something happens."""

        def produce(*_: Any, on_delivery: Callable[..., None], **__: Any) -> None:
            meanwhile()
            on_delivery(None, None)

        return produce

    def goes(self) -> None:
        self.joined.assignment.drop([_P0])
        self.joined.offsets.forget([_P0])

    def committed(self, offset: int) -> None:
        """The group says so."""
        answer = [TopicPartition(*_P0, offset)]
        self.joined.librdkafka.answers["committed"] = answer

    def send(self) -> object:

        def poll(at_once: bool) -> None:
            if at_once or self.joined.clock.now_s() >= self.joined.read_ahead.deadline_s:
                self.in_a_poll()

        return driven(self.delivery.send(self.held, _RECORD), poll)


def test_all_goes_well() -> None:
    """One after another; then the offset is known to be committed, and nothing is sealed."""
    scene = _Scene()
    assert Acknowledged() == scene.send()
    assert [
        "init_transactions",
        "begin_transaction",
        "produce",
        "send_offsets_to_transaction",
        "commit_transaction",
    ] == scene.librdkafka.names
    assert ([(*_P0, 6)], "billing's member", 0.25) == scene.librdkafka.calls[3][1]
    assert not scene.joined.offsets.is_in_transaction(_P0)


def test_the_partition_goes_as_the_report_comes() -> None:
    """In the poll that brings it: the letter is the next owner's, so it is aborted, and no offset
    of ours joins it."""
    scene = _Scene()
    scene.librdkafka.answers["produce"] = scene.reporting(scene.goes)
    assert Abandoned() == scene.send()
    assert "send_offsets_to_transaction" not in scene.librdkafka.names
    assert "abort_transaction" == scene.librdkafka.names[-1]


def test_the_partition_goes_as_a_commit_is_answered() -> None:
    """In one poll: nothing is awaited any more, and the partition is another's. Its offset must not
    join the transaction, which the broker would let it: the member is one of the group still."""
    scene = _Scene()
    scene.joined.client.commit({_P0: 5})

    def poll() -> None:
        scene.goes()
        scene.joined.librdkafka.config["on_commit"](None, [TopicPartition(*_P0, 5)])

    scene.in_a_poll = poll
    assert Abandoned() == scene.send()
    assert "send_offsets_to_transaction" not in scene.librdkafka.names


def test_after_an_abort_it_is_committed_as_ever() -> None:
    """Nobody was asked to commit the transaction: what was done before the message is not held
    back until its letter is sent, which may take hours."""
    scene = _Scene()
    error = _refused(KafkaError.COORDINATOR_NOT_AVAILABLE, abortable=True)
    scene.librdkafka.answers["send_offsets_to_transaction"] = error
    assert isinstance(scene.send(), NotSent)
    assert {_P0: 5, _P1: 5} == scene.joined.offsets.uncommitted()


def test_nobody_knows_what_is_committed() -> None:
    """The last commit's answer was lost, and the group does not answer either: nothing is sent, or
    the letter might be there twice, and nothing of the partition is committed."""
    scene = _Scene()
    scene.joined.offsets.begin_transaction(_P0)
    scene.joined.librdkafka.answers["committed"] = _refused(KafkaError._TRANSPORT)
    answer = scene.send()
    assert isinstance(answer, NotSent)
    assert "not known" in answer.error
    assert "produce" not in scene.librdkafka.names
    assert {_P1: 5} == scene.joined.offsets.uncommitted()


@pytest.mark.parametrize(("offset", "produced"), [(5, True), (6, False)])
def test_the_group_knows_what_is_committed(offset: int, produced: bool) -> None:
    """Its offset tells whether the letter is there: only if not is it sent again."""
    scene = _Scene()
    scene.joined.offsets.begin_transaction(_P0)
    scene.committed(offset)
    assert Acknowledged() == scene.send()
    assert produced == ("produce" in scene.librdkafka.names)
    assert not scene.joined.offsets.is_in_transaction(_P0)


def test_a_transaction_that_was_left_behind() -> None:
    """By an exception out of a poll: it is aborted first, or no other could begin."""
    scene = _Scene()
    scene.producer.initialise(1.0)
    scene.producer.begin()
    assert Acknowledged() == scene.send()
    calls = [name for name in scene.librdkafka.names if name.endswith("transaction")]
    assert ["begin_transaction", "abort_transaction", "begin_transaction"] == calls[:3]


class _Unanswered(_Scene):
    """The group's coordinator is down, and sendings were left behind for that."""

    def __init__(self) -> None:
        super().__init__()
        self.answered = threading.Event()
        self.joined.librdkafka.answers["committed"] = _refused(KafkaError._TIMED_OUT)

    def leave_behind(self, count: int) -> None:
        answers = self.librdkafka.answers
        answers["send_offsets_to_transaction"] = lambda *_: self.answered.wait()
        for _ in range(count):
            self.producer.send_offset(TopicPartition(*_P0, 6), "billing's member", 0.001)
            self.producer.renew()
        # One that is answered, so that a letter that is sent all the same shows.
        answers["send_offsets_to_transaction"] = None

    @property
    def asked(self) -> int:
        return self.librdkafka.names.count("send_offsets_to_transaction")


@pytest.fixture
def unanswered() -> Iterator[_Unanswered]:
    """Answered at the end, so that no thread is left behind by the test."""
    scene = _Unanswered()
    yield scene
    scene.answered.set()


def test_no_other_is_left_behind_while_the_group_is_silent(unanswered: _Unanswered) -> None:
    """The bug: with the coordinator down each sending left a producer behind, and its six threads
    with it, some of them for ever."""
    unanswered.leave_behind(1)
    for _ in range(20):
        answer = unanswered.send()
        assert isinstance(answer, NotSent)
        assert "the group does not answer" in answer.error
    assert 1 == unanswered.asked
    assert "produce" not in unanswered.librdkafka.names


def test_one_that_was_left_behind_is_in_nobodys_way(unanswered: _Unanswered) -> None:
    """It may never end: once the group answers, another sends the letter."""
    unanswered.leave_behind(1)
    unanswered.committed(5)
    assert Acknowledged() == unanswered.send()


def test_too_many_are_left_behind(unanswered: _Unanswered) -> None:
    """Each for a coordinator that went in the midst of a letter, and none has ended since: that is
    for another process, before threads run out."""
    unanswered.leave_behind(10)
    unanswered.committed(5)
    with pytest.raises(BrokerError, match=r"10 producers .* orders\.dlq .* restart the consumer"):
        unanswered.send()
    assert 10 == unanswered.asked


def test_no_transaction_can_ever_begin() -> None:
    """Reported at the start: with the topic, what the broker says, and the remedy."""
    scene = _Scene()
    error = _refused(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    scene.librdkafka.answers["init_transactions"] = error
    with pytest.raises(BrokerError, match=r"orders\.dlq.*transactional\.id"):
        scene.delivery.prepare()
