"""What each answer of librdkafka's to a call about a transaction means."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from linear_retry.kafka.producers.transactional import (
    Broken,
    Completed,
    Refused,
    Step,
    TransactionalProducer,
    Unfinished,
)
from linear_retry.records.record import OutgoingRecord

FATAL = KafkaError(KafkaError._FENCED, "fenced", True)
RETRIABLE = KafkaError(KafkaError._TIMED_OUT, "timed out", False, True)
ABORTABLE = KafkaError(KafkaError.ILLEGAL_GENERATION, "generation", False, False, True)
STATE = KafkaError(KafkaError._STATE, "not now")
CONFLICT = KafkaError(KafkaError._CONFLICT, "another call is in progress", False, True)
_PLACE = TopicPartition("orders", 3, 7)

CALLS: dict[str, Callable[[TransactionalProducer], Step]] = {
    "init_transactions": lambda producer: producer.initialise(0.25),
    "begin_transaction": lambda producer: producer.begin(),
    "send_offsets_to_transaction": lambda producer: producer.send_offset(_PLACE, b"member", 0.25),
    "commit_transaction": lambda producer: producer.commit(0.25),
}


class _Librdkafka:
    """One producer handle: notes what is called, and waits and refuses as it is told to."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = dict(config)
        self.calls: list[tuple[Any, ...]] = []
        self.refuses: dict[str, KafkaError] = {}
        self.waits: dict[str, Callable[[], object]] = {}

    def __getattr__(self, name: str) -> Callable[..., None]:
        def call(*arguments: Any, **named: Any) -> None:
            self.calls.append((name, *arguments))
            if name in self.waits:
                self.waits[name]()
            if name in self.refuses:
                raise KafkaException(self.refuses[name])

        return call


class _Scene:
    def __init__(self) -> None:
        self.made: list[_Librdkafka] = []
        self.producer = TransactionalProducer("dlq", {"transactional.id": "mine"}, self._make)
        self.producer.check()

    def _make(self, config: Mapping[str, Any]) -> _Librdkafka:
        self.made.append(_Librdkafka(config))
        return self.made[-1]

    def refuse(self, call: str, error: KafkaError) -> None:
        self.made[-1].refuses[call] = error


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("error", "step"),
    [
        (FATAL, Broken(FATAL)),
        (RETRIABLE, Unfinished(RETRIABLE)),
        (ABORTABLE, Refused(ABORTABLE)),
        # Neither: librdkafka offers no way on with this handle.
        (STATE, Broken(STATE)),
        # Said to be retriable, and so for ever: the other call is not going to be finished.
        (CONFLICT, Broken(CONFLICT)),
    ],
    ids=lambda value: value.name() if isinstance(value, KafkaError) else "",
)
def test_an_error_says_how_to_go_on(call: str, error: KafkaError, step: Step) -> None:
    """The same call again, an abort, or another producer."""
    scene = _Scene()
    scene.refuse(call, error)
    assert step == CALLS[call](scene.producer)


def test_one_transaction_from_beginning_to_end() -> None:
    """Each call is librdkafka's own, with its time; nothing is done twice."""
    scene = _Scene()
    producer = scene.producer
    steps = [producer.initialise(0.25), producer.begin()]
    producer.send(OutgoingRecord("dlq", b"k", b"v", [("a", b"1")], 3))
    steps += [producer.send_offset(_PLACE, b"member", 0.5), producer.commit(0.75)]
    assert [Completed()] * 4 == steps
    expected = [
        ("init_transactions", 0.25),
        ("begin_transaction",),
        ("produce", "dlq", b"v", b"k"),
        ("send_offsets_to_transaction", [TopicPartition("orders", 3, 7)], b"member", 0.5),
        ("commit_transaction", 0.75),
    ]
    assert expected == scene.made[0].calls


def test_the_group_does_not_answer() -> None:
    """A call that librdkafka never ends is waited for in slices, and left behind with its producer.

    It used to hold up the consumer for ever: after a broker's restart the producer may go on asking
    the coordinator that the group had before (librdkafka #5511).
    """
    scene = _Scene()
    producer, answered = scene.producer, threading.Event()
    scene.made[0].waits["send_offsets_to_transaction"] = answered.wait
    producer.begin()
    steps = [producer.send_offset(_PLACE, b"member", 0.001) for _ in range(2)]
    assert [KafkaError._TIMED_OUT] * 2 == [
        step.error.code() for step in steps if isinstance(step, Unfinished)
    ]
    producer.renew()
    assert Completed() == producer.initialise(0.25)
    assert Completed() == producer.send_offset(_PLACE, b"member", 0.25)
    answered.set()
    names = [[name for name, *_ in made.calls] for made in scene.made]
    assert [
        ["begin_transaction", "send_offsets_to_transaction"],
        ["init_transactions", "send_offsets_to_transaction"],
    ] == names


def test_the_group_answers_late() -> None:
    """What the call comes to is told by the next one, which is not made twice."""
    scene = _Scene()
    producer, answered = scene.producer, threading.Event()
    scene.made[0].waits["send_offsets_to_transaction"] = answered.wait
    first = producer.send_offset(_PLACE, b"member", 0.001)
    answered.set()
    assert isinstance(first, Unfinished)
    assert Completed() == producer.send_offset(_PLACE, b"member", 0.25)
    assert ["send_offsets_to_transaction"] == [name for name, *_ in scene.made[0].calls]


def test_a_slice_is_no_longer_than_asked() -> None:
    """The bug: each lasted a second more, and a stop that came meanwhile was heard so much later.
    What it comes to is told by the next."""
    scene = _Scene()
    answered = threading.Event()
    scene.made[0].waits["send_offsets_to_transaction"] = lambda: answered.wait(0.9)
    step = scene.producer.send_offset(_PLACE, b"member", 0.001)
    answered.set()
    assert isinstance(step, Unfinished)
    assert Completed() == scene.producer.send_offset(_PLACE, b"member", 30.0)


def test_how_many_are_left_behind() -> None:
    """Those that wait for an answer, and with it keep their threads; no others."""
    scene = _Scene()
    producer, answered, seen = scene.producer, threading.Event(), list[int]()
    for _ in range(2):
        producer.initialise(0.25)
        scene.made[-1].waits["send_offsets_to_transaction"] = answered.wait
        producer.send_offset(_PLACE, b"member", 0.001)
        producer.renew()
        seen.append(producer.left_behind)
    answered.set()
    _join("linear_retry send_offsets")
    producer.initialise(0.25)
    producer.renew()
    assert [1, 2, 0] == [*seen, producer.left_behind]


def _join(name: str) -> None:
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join()


def test_an_answer_that_nobody_has_read_is_of_no_other_transaction() -> None:
    """A Ctrl-C while it was waited for: the next transaction's offset is sent all the same.

    It used to be told that it was, without having been: its letter was committed without it.
    """
    scene = _Scene()
    producer, answered = scene.producer, threading.Event()
    scene.made[0].waits["send_offsets_to_transaction"] = answered.wait
    producer.begin()
    producer.send_offset(_PLACE, b"member", 0.001)
    answered.set()
    producer.abort(1.0)
    steps = [producer.initialise(0.25), producer.begin()]
    steps.append(producer.send_offset(TopicPartition("orders", 3, 8), b"member", 0.25))
    assert [Completed()] * 3 == steps
    sent = ("send_offsets_to_transaction", [TopicPartition("orders", 3, 8)], b"member", 0.25)
    assert sent == scene.made[1].calls[-1]


def test_initialised_once_more() -> None:
    """Where a start failed behind it, the next begins with it: librdkafka would refuse that."""
    scene = _Scene()
    assert [Completed()] * 2 == [scene.producer.initialise(1.0) for _ in range(2)]
    assert [("init_transactions", 1.0)] == scene.made[0].calls


def test_it_knows_where_it_is() -> None:
    """Ready once initialised; in a transaction from its beginning to its end."""
    producer = _Scene().producer
    seen = [(producer.ready, producer.in_transaction)]
    for call in (producer.initialise, lambda _: producer.begin(), producer.commit):
        call(1.0)
        seen.append((producer.ready, producer.in_transaction))
    assert [(False, False), (True, False), (True, True), (True, False)] == seen


def test_a_commit_without_an_answer_is_not_over() -> None:
    """Whoever closes now has to end it."""
    scene = _Scene()
    scene.producer.begin()
    scene.refuse("commit_transaction", RETRIABLE)
    scene.producer.commit(1.0)
    assert scene.producer.in_transaction


def test_an_abort_keeps_the_producer() -> None:
    """The next transaction begins without another initialisation."""
    scene = _Scene()
    scene.producer.initialise(1.0)
    scene.producer.begin()
    scene.producer.abort(1.0)
    scene.producer.begin()
    assert (1, True) == (len(scene.made), scene.producer.ready)


@pytest.mark.parametrize("error", [FATAL, RETRIABLE, STATE, CONFLICT], ids=lambda e: e.name())
def test_an_abort_that_fails_is_left_to_the_next_producer(error: KafkaError) -> None:
    """The next one of the same id ends it, when it is initialised."""
    scene = _Scene()
    scene.producer.initialise(1.0)
    scene.producer.begin()
    scene.refuse("abort_transaction", error)
    scene.producer.abort(1.0)
    assert (False, False) == (scene.producer.ready, scene.producer.in_transaction)
    scene.producer.initialise(1.0)
    assert ["mine", "mine"] == [one.config["transactional.id"] for one in scene.made]


def test_an_abort_of_nothing_renews() -> None:
    """A transaction that did not begin has a producer that cannot be used."""
    scene = _Scene()
    scene.refuse("begin_transaction", STATE)
    scene.producer.begin()
    scene.producer.abort(1.0)
    scene.producer.initialise(1.0)
    assert 2 == len(scene.made)
    assert [("begin_transaction",)] == scene.made[0].calls


def test_an_answer_that_comes_at_once_is_not_asked_for_again_at_once() -> None:
    """librdkafka may say without waiting that it has none yet: no busy loop."""
    scene = _Scene()
    scene.refuse("init_transactions", RETRIABLE)
    scene.producer.initialise(0.25)
    assert [("init_transactions", 0.25), ("poll", 0.01)] == scene.made[0].calls


def test_nothing_to_serve_before_it_is_made() -> None:
    """Listening makes no client."""
    made: list[Any] = []
    TransactionalProducer("dlq", {}, made.append).poll(0)
    assert [] == made
