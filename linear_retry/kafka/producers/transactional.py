"""The acknowledged producer in transactions: records and source offset are committed together."""

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
from linear_retry.scope import Partition


@dataclass(frozen=True, slots=True)
class Completed:
    """The broker has said so."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Not answered in this time: the same call again waits on for the same answer."""

    error: KafkaError


@dataclass(frozen=True, slots=True)
class Refused:
    """Abort this transaction; the next may succeed."""

    error: KafkaError


@dataclass(frozen=True, slots=True)
class Broken:
    """This producer is of no more use: `renew` it."""

    error: KafkaError


_LOOK_AGAIN_S = 0.01

Step: TypeAlias = Completed | Unfinished | Refused | Broken


class TransactionalProducer(AcknowledgedProducer):
    """An acknowledged producer that sends in transactions, one at a time.

    Its `transactional.id` is its own. So one that is fenced has no rival: the broker has ended its
    transaction for lasting too long. A new producer of the same id goes on (`renew`,
    `initialise`), and its `initialise` decides whatever the old one has left open.
    """

    def __init__(
        self, topic: str, config: Mapping[str, Any], producer: Callable[..., Any] = Producer
    ) -> None:
        """`config` has a `transactional.id`. Connects at the first `initialise`."""
        super().__init__(topic, config, producer)
        self._offset_sent: Future[None] | None = None
        self._left_behind: list[Future[None]] = []
        self.ready = False
        self.in_transaction = False

    @property
    def left_behind(self) -> int:
        """How many former producers wait for an answer of the group's, each with its threads.

        Some end when the coordinator is back, some never do; nothing that we may call ends them.
        """
        self._left_behind = [sent for sent in self._left_behind if not sent.done()]
        return len(self._left_behind)

    def initialise(self, within_s: float) -> Step:
        """Before the first transaction of each producer: `Completed` makes it `ready`."""
        if self.ready:
            return Completed()  # librdkafka would refuse it
        step = self._step(lambda: self._handle().init_transactions(within_s))
        self.ready = isinstance(step, Completed)
        return step

    def begin(self) -> Step:
        """Begin a transaction. Answered at once."""
        step = self._step(lambda: self._handle().begin_transaction())
        self.in_transaction = isinstance(step, Completed)
        return step

    def produce(self, record: OutgoingRecord, on_delivery: Callable[..., object]) -> None:
        """As `send`, but the report is the caller's. Raises `KafkaException` and `BufferError`."""
        produce(self._handle(), record, on_delivery)

    def poll(self, timeout_s: float) -> None:
        """Wait for answers, at most `timeout_s`. What is fatal is said by the next step."""
        if self._producer is not None:
            with suppress(KafkaException):
                self._producer.poll(timeout_s)

    def send_offset(
        self, partition: Partition, next_offset: int, membership: object, within_s: float
    ) -> Step:
        """Let the transaction commit this offset of the group whose member `membership` names.

        librdkafka's call takes no notice of its timeout where the group's coordinator is down, and
        where that was ever down it may last for ever (librdkafka #5456, #5511). So it has a thread:
        the next call waits on for the same answer, and `renew` leaves it behind.
        """
        if self._offset_sent is None:
            producer, offsets = self._handle(), [TopicPartition(*partition, next_offset)]
            self._offset_sent = _begun(
                lambda: producer.send_offsets_to_transaction(offsets, membership, within_s)
            )
        sent = self._offset_sent
        wait([sent], within_s)
        if not sent.done():
            return Unfinished(KafkaError(KafkaError._TIMED_OUT, "the group does not answer"))
        self._offset_sent = None
        return self._step(sent.result)

    def commit(self, within_s: float) -> Step:
        """Commit it. Whatever is not `Completed` may be committed all the same."""
        step = self._step(lambda: self._handle().commit_transaction(within_s))
        self.in_transaction = not isinstance(step, Completed)
        return step

    def abort(self, within_s: float) -> None:
        """Abort it. Where the broker does not say so in time, the next `initialise` does it.

        Where none has begun, nobody knows why: the next begins with another producer. So it does
        where an exception has left the wait for `send_offset`: its answer would be taken for that
        of the next transaction, and what it sends might become part of that.
        """
        if not self.in_transaction or self._offset_sent is not None:
            self.renew()
            return
        step = self._step(lambda: self._handle().abort_transaction(within_s))
        self.in_transaction = False
        if not isinstance(step, Completed):
            self.renew()

    def renew(self) -> None:
        """Forget the present producer; the next one has to `initialise`."""
        if self._offset_sent is not None:
            self._left_behind.append(self._offset_sent)
        self._producer = self._delivery = self._offset_sent = None
        self.ready = self.in_transaction = False

    def leave_behind(self) -> None:
        """Forget the present producer as it is, and never free it.

        librdkafka 2.16 may corrupt the heap as it frees one that was fenced amid its sending: of
        some 60 processes one was aborted by that. For those that make few: its threads stay.
        """
        if self._producer is not None:
            # Beyond the interpreter's end as well, which frees what any list still holds.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._producer))
        self.renew()

    def _on_error(self, error: KafkaError) -> None:
        """What is wrong comes with each call."""

    def _step(self, call: Callable[[], object]) -> Step:
        try:
            call()
        except KafkaException as raised:
            error = raised.args[0]
            if error.txn_requires_abort():
                return Refused(error)
            # What is fatal is not retriable, as when the broker has fenced us for our time. And
            # "conflicting" counts as retriable, but another call, timed out, is in its way forever.
            if not error.retriable() or error.code() == KafkaError._CONFLICT:
                return Broken(error)
            self.poll(_LOOK_AGAIN_S)  # librdkafka may say at once that it has no answer yet
            return Unfinished(error)
        return Completed()


def _begun(call: Callable[[], object]) -> Future[None]:
    """What `call`, in a thread of its own that no exit waits for, comes to."""
    result: Future[None] = Future()

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001  (it is the caller's, who asks for it)
            result.set_exception(error)
        else:
            result.set_result(None)

    threading.Thread(target=run, name="linear_retry send_offsets", daemon=True).start()
    return result
