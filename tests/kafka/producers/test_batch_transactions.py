"""All records of a batch are there, or none, whatever librdkafka answers."""

import gc
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from linear_retry.errors import BrokerError, ConfigurationError, FencedError
from linear_retry.kafka.producers.batch_transactions import (
    TRANSACTION_TIMEOUT_MS,
    BatchTransactions,
    RefusedRecordsError,
    batch_config,
)
from linear_retry.records.record import OutgoingRecord
from tests.conftest import TopicFactory
from tests.real_kafka import RealKafka

_FENCED = KafkaError(KafkaError._FENCED, "fenced", True)
_RETRIABLE = KafkaError(KafkaError._TIMED_OUT, "timed out", False, True)
_ABORTABLE = KafkaError(KafkaError.NOT_ENOUGH_REPLICAS, "replicas", False, False, True)
_STATE = KafkaError(KafkaError._STATE, "not now")
_RECORDS = [OutgoingRecord("orders", b"k", b"1"), OutgoingRecord("orders", b"k", b"2")]


class _Librdkafka:
    """One producer handle: notes what is called, and answers as it is told to, once each."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.calls: list[str] = []
        self.answers: dict[str, list[KafkaError | Exception | None]] = {}
        self.report: Callable[..., None] = lambda *_: None

    def __getattr__(self, name: str) -> Callable[..., None]:
        def call(*_: Any, on_delivery: Callable[..., None] | None = None, **__: Any) -> None:
            self.calls.append(name)
            self.report = on_delivery or self.report
            left = self.answers.get(name, [])
            answer = left.pop(0) if left else None
            if isinstance(answer, KafkaError):
                raise KafkaException(answer)
            if answer is not None:
                raise answer

        return call


class _Scene:
    """Each look at the clock is half a second later."""

    def __init__(self) -> None:
        self.made: list[_Librdkafka] = []
        self._now_s = 0.0
        self.transactions = BatchTransactions({"transactional.id": "t"}, self._make, self._clock)
        self.transactions.initialise(60)
        self.handle.calls.clear()

    @property
    def handle(self) -> _Librdkafka:
        return self.made[0]

    def _make(self, config: Mapping[str, Any]) -> _Librdkafka:
        self.made.append(_Librdkafka(config))
        return self.made[-1]

    def _clock(self) -> float:
        self._now_s += 0.5
        return self._now_s


def test_one_batch_is_one_transaction() -> None:
    """Begun, handed over in order, committed."""
    scene = _Scene()
    scene.transactions.commit(_RECORDS, 60)
    expected = ["begin_transaction", "produce", "produce", "commit_transaction"]
    assert expected == scene.handle.calls


def test_the_answer_to_a_commit_is_waited_for() -> None:
    """The same call once more, until it is there."""
    scene = _Scene()
    scene.handle.answers["commit_transaction"] = [_RETRIABLE] * 3
    scene.transactions.commit(_RECORDS, 60)
    assert 4 == scene.handle.calls.count("commit_transaction")
    assert 0 == scene.handle.calls.count("abort_transaction")


def test_what_is_refused_is_aborted() -> None:
    """The reason is raised, and nothing of the batch is there."""
    scene = _Scene()
    scene.handle.answers["commit_transaction"] = [_ABORTABLE]
    with pytest.raises(BrokerError, match="replicas"):
        scene.transactions.commit(_RECORDS, 60)
    expected = ["begin_transaction", "produce", "produce", "commit_transaction"]
    assert [*expected, "abort_transaction"] == scene.handle.calls


def test_a_record_that_is_refused_at_once_is_named() -> None:
    """Such as one for a partition that its topic does not have."""
    scene = _Scene()
    unknown = KafkaError(KafkaError._UNKNOWN_PARTITION, "no such partition")
    scene.handle.answers["produce"] = [None, unknown]
    with pytest.raises(RefusedRecordsError, match="orders: no such partition") as raised:
        scene.transactions.commit(_RECORDS, 60)
    assert {1: unknown} == raised.value.refused
    assert "abort_transaction" == scene.handle.calls[-1]


@pytest.mark.parametrize("call", ["begin_transaction", "commit_transaction"])
def test_a_fenced_one_says_so_and_makes_no_other(call: str) -> None:
    """Another producer of this id would fence the newer one in its turn."""
    scene = _Scene()
    scene.handle.answers[call] = [_FENCED] * 9
    with pytest.raises(FencedError, match="fenced"):
        scene.transactions.commit(_RECORDS, 60)
    assert 1 == len(scene.made)


@pytest.mark.parametrize("call", ["begin_transaction", "commit_transaction"])
def test_a_fenced_one_is_never_freed(call: str) -> None:
    """Bug: librdkafka ended the process as it freed one that was fenced amid its sending, with
    "double free or corruption", in place of the exit code that says that it was fenced."""
    scene = _Scene()
    handle = weakref.ref(scene.handle)
    scene.handle.answers[call] = [_FENCED]
    with pytest.raises(FencedError):
        scene.transactions.commit(_RECORDS, 60)
    assert "abort_transaction" not in scene.handle.calls
    del scene
    gc.collect()
    assert handle() is not None


def test_a_transaction_that_breaks_off_is_never_committed_in_part() -> None:
    """librdkafka takes no more of it: the commit only says why."""
    scene = _Scene()
    scene.handle.answers["produce"] = [None, _STATE]
    scene.handle.answers["commit_transaction"] = [_FENCED]
    with pytest.raises(FencedError):
        scene.transactions.commit(_RECORDS, 60)
    scene = _Scene()
    scene.handle.answers["produce"] = [None, _STATE]
    with pytest.raises(AssertionError, match="had failed"):
        scene.transactions.commit(_RECORDS, 60)


def test_a_full_queue_is_waited_for() -> None:
    """And not for ever."""
    scene = _Scene()
    scene.handle.answers["produce"] = [BufferError(), BufferError()]
    scene.transactions.commit(_RECORDS, 60)
    assert 4 == scene.handle.calls.count("produce")
    scene.handle.answers["produce"] = [BufferError()] * 999
    with pytest.raises(BrokerError, match="stays full"):
        scene.transactions.commit(_RECORDS, 60)
    assert "abort_transaction" == scene.handle.calls[-1]


def test_no_answer_to_a_commit_is_an_end() -> None:
    """Nobody knows what became of it: it is not sent again."""
    scene = _Scene()
    scene.handle.answers["commit_transaction"] = [_RETRIABLE] * 999
    with pytest.raises(BrokerError, match="not committed"):
        scene.transactions.commit(_RECORDS, 5)
    assert 1 == scene.handle.calls.count("begin_transaction")


def test_an_interrupt_aborts() -> None:
    """Wherever it comes."""
    for call in ("produce", "commit_transaction"):
        scene = _Scene()
        scene.handle.answers[call] = [KeyboardInterrupt()]  # type: ignore[list-item]
        with pytest.raises(KeyboardInterrupt):
            scene.transactions.commit(_RECORDS, 60)
        assert "abort_transaction" == scene.handle.calls[-1]


def test_a_key_that_librdkafka_refuses() -> None:
    """It is the configuration that is wrong."""

    def refuse(config: Mapping[str, Any]) -> None:
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, "no such key"))

    with pytest.raises(ConfigurationError, match="no such key"):
        BatchTransactions({"transactional.id": "t"}, refuse).initialise(1)


def test_no_batch_is_larger_than_the_smallest_limit() -> None:
    """Nor larger than usual; brokers, security and compression are the user's."""
    config = {"bootstrap.servers": "b", "sasl.username": "u", "compression.type": "lz4", "acks": 0}
    made = batch_config(config, "t", 2000)
    assert (2000, "b", "u", "lz4", "all") == (
        *(made["batch.size"], made["bootstrap.servers"], made["sasl.username"]),
        *(made["compression.type"], made["acks"]),
    )
    assert 1_000_000 == batch_config(config, "t", None)["batch.size"]
    assert 1_000_000 == batch_config(config, "t", 50_000_000)["batch.size"]


def test_a_socket_is_not_waited_for_longer_than_a_transaction() -> None:
    """librdkafka refuses that."""
    assert TRANSACTION_TIMEOUT_MS == batch_config({}, "t", None)["socket.timeout.ms"]
    assert 5 == batch_config({"socket.timeout.ms": 5}, "t", None)["socket.timeout.ms"]


@pytest.mark.broker
def test_the_newer_has_it(
    kafka: RealKafka, topic: TopicFactory, capfd: pytest.CaptureFixture[str]
) -> None:
    """On a real broker: nothing of the older comes after it, and librdkafka writes no lines."""
    name = topic()
    older, newer = (
        BatchTransactions(batch_config(kafka.client_settings(), f"id-of-{name}", None))
        for _ in range(2)
    )
    older.initialise(30)
    older.commit([OutgoingRecord(name, b"k", b"1")], 30)
    newer.initialise(30)
    with pytest.raises(FencedError):
        older.commit([OutgoingRecord(name, b"k", b"2")], 30)
    newer.commit([OutgoingRecord(name, b"k", b"3", [("a", b"1")], 0, 7)], 30)
    second = newer.commit
    second([OutgoingRecord(name, b"k", b"4")], 30)
    assert [b"1", b"3"] == [message.value() for message in kafka.read(name)][:2]
    assert ("", "") == tuple(capfd.readouterr())


@pytest.mark.broker
def test_what_a_broker_refuses_leaves_nothing(kafka: RealKafka, topic: TopicFactory) -> None:
    """One message that is too large takes the others with it, and is named; the next is sent."""
    name, small = topic(), topic(1, {"max.message.bytes": "1000"})
    sender = BatchTransactions(batch_config(kafka.client_settings(), f"id-of-{name}", None))
    sender.initialise(30)
    with pytest.raises(RefusedRecordsError, match=rf"{small}\[0\].*too large") as raised:
        sender.commit(
            [OutgoingRecord(name, b"k", b"1"), OutgoingRecord(small, b"k", b"v" * 2000)], 30
        )
    assert {1: KafkaError.MSG_SIZE_TOO_LARGE} == {
        index: error.code() for index, error in raised.value.refused.items()
    }
    sender.commit([OutgoingRecord(name, b"k", b"2")], 30)
    sender.commit([OutgoingRecord(name, b"k", b"3")], 30)
    assert [b"2"] == [message.value() for message in kafka.read(name)][:1]
