"""The transactional producer: records and source offset are committed together."""

import ctypes
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from linear_retry.kafka.producers.acknowledged import AcknowledgedProducer, produce
from linear_retry.records.record import OutgoingRecord


@dataclass(frozen=True, slots=True)
class Completed:
    """The broker has confirmed it."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Not answered in time: repeating the call continues to wait for the same answer."""

    error: KafkaError


@dataclass(frozen=True, slots=True)
class Refused:
    """Abort this transaction; the next may succeed."""

    error: KafkaError


@dataclass(frozen=True, slots=True)
class Broken:
    """This producer is unusable: `renew` it."""

    error: KafkaError


_LOOK_AGAIN_S = 0.01

Step: TypeAlias = Completed | Unfinished | Refused | Broken


class TransactionalProducer(AcknowledgedProducer):
    """An acknowledged producer that sends in transactions, one at a time.

    Nobody else has its `transactional.id`. So if it is fenced, it has no rival: the broker has
    ended its transaction for taking too long. A new producer with the same id continues (`renew`,
    `initialise`), and its `initialise` decides what the old one left open.
    """

    def __init__(
        self, topic: str, config: Mapping[str, Any], producer: Callable[..., Any] = Producer
    ) -> None:
        """`config` must have a `transactional.id`. Connects at the first `initialise`."""
        super().__init__(topic, config, producer)
        self._offset_sent: Future[None] | None = None
        self._left_behind: list[Future[None]] = []
        self.ready = False
        self.in_transaction = False

    @property
    def left_behind(self) -> int:
        """The number of former producers that wait for the group's answer, each with its threads.

        Some end when the coordinator is back, some never do; we have no way to end them.
        """
        self._left_behind = [sent for sent in self._left_behind if not sent.done()]
        return len(self._left_behind)

    def initialise(self, within_s: float) -> Step:
        """Initialises a producer before its first transaction; once `Completed` it is `ready`."""
        if self.ready:
            return Completed()  # librdkafka would refuse a second call
        step = self._step(lambda: self._handle().init_transactions(within_s))
        self.ready = isinstance(step, Completed)
        return step

    def begin(self) -> Step:
        """Begins a transaction. Answered at once."""
        step = self._step(lambda: self._handle().begin_transaction())
        self.in_transaction = isinstance(step, Completed)
        return step

    def produce(self, record: OutgoingRecord, on_delivery: Callable[..., object]) -> None:
        """Like `send`, with the caller's callback. Raises `KafkaException` and `BufferError`."""
        produce(self._handle(), record, on_delivery)

    def poll(self, timeout_s: float) -> None:
        """Waits for delivery reports, at most `timeout_s`. The next step reports fatal errors."""
        if self._producer is not None:
            with suppress(KafkaException):
                self._producer.poll(timeout_s)

    def send_offset(self, to_commit: TopicPartition, membership: object, within_s: float) -> Step:
        """Adds this offset to the transaction, for the group member in `membership`.

        librdkafka's call ignores its timeout while the group's coordinator is down, and if that was
        ever down, it may block for ever (librdkafka #5456, #5511). So it runs in a thread: the next
        call continues to wait for the same answer, and `renew` abandons it.
        """
        if self._offset_sent is None:
            producer = self._handle()
            self._offset_sent = _begun(
                lambda: producer.send_offsets_to_transaction([to_commit], membership, within_s)
            )
        sent = self._offset_sent
        wait([sent], within_s)
        if not sent.done():
            return Unfinished(KafkaError(KafkaError._TIMED_OUT, "the group does not answer"))
        self._offset_sent = None
        return self._step(sent.result)

    def commit(self, within_s: float) -> Step:
        """Commits it. If the step is not `Completed`, it may be committed nevertheless."""
        step = self._step(lambda: self._handle().commit_transaction(within_s))
        self.in_transaction = not isinstance(step, Completed)
        return step

    def abort(self, within_s: float) -> None:
        """Aborts it. If the broker does not confirm that in time, the next `initialise` does it.

        If none has begun, the state is unknown: the next one begins with a new producer. So it does
        after an exception in the wait for `send_offset`: its answer would be taken for the next
        transaction's, and what it sends might become part of that.
        """
        if not self.in_transaction or self._offset_sent is not None:
            self.renew()
            return
        step = self._step(lambda: self._handle().abort_transaction(within_s))
        self.in_transaction = False
        if not isinstance(step, Completed):
            self.renew()

    def renew(self) -> None:
        """Drops the current producer; the next one must `initialise`."""
        if self._offset_sent is not None:
            self._left_behind.append(self._offset_sent)
        self._producer = self._delivery = self._offset_sent = None
        self.ready = self.in_transaction = False

    def leave_behind(self) -> None:
        """Abandons the current producer, and never frees it.

        librdkafka 2.16 may corrupt the heap when it frees one that was fenced while sending: that
        aborted 1 of some 60 processes. Only for few producers, as the threads stay.
        """
        if self._producer is not None:
            # Even beyond the interpreter's end, which frees what a list still holds.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._producer))
        self.renew()

    def _on_error(self, error: KafkaError) -> None:
        """Does nothing: each call reports its errors."""

    def _step(self, call: Callable[[], object]) -> Step:
        try:
            call()
        except KafkaException as raised:
            error = raised.args[0]
            if error.txn_requires_abort():
                return Refused(error)
            # A fatal error, such as being fenced for a timeout, is not retriable. "Conflicting"
            # claims to be, but the other call, which timed out, blocks it for ever.
            if not error.retriable() or error.code() == KafkaError._CONFLICT:
                return Broken(error)
            self.poll(_LOOK_AGAIN_S)  # librdkafka may return at once without an answer
            return Unfinished(error)
        return Completed()


def _begun(call: Callable[[], object]) -> Future[None]:
    """Runs `call` in its own thread, which no exit waits for; returns the future result."""
    result: Future[None] = Future()

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001  (passed to the caller by the future)
            result.set_exception(error)
        else:
            result.set_result(None)

    threading.Thread(target=run, name="linear_retry send_offsets", daemon=True).start()
    return result
