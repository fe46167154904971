"""The fake `Producer`, and when its delivery reports come."""

from __future__ import annotations

import math
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ClusterMetadata  # type: ignore[attr-defined]  # exported by import only

from tests.fake.outgoing import Outgoing, Place, Report, as_bytes, reported, sent_headers
from tests.fake.topic import FakeTopic, Headers
from tests.fake.transactions import Transactions

if TYPE_CHECKING:
    from tests.fake.cluster import FakeKafka

_PARTITION_ANY = -1
_UNKNOWN_TOPIC_S = 30.0

_TIMED_OUT = KafkaError(KafkaError._MSG_TIMED_OUT, "Local: Message timed out")
_PURGED = KafkaError(KafkaError._PURGE_QUEUE, "Local: Purged in queue")
_UNTOLD = KafkaError(KafkaError._NOENT, "No report ever comes")


class FakeProducer:
    """One producer handle: `produce` only queues; what became of it is reported in `poll`."""

    def __init__(self, fake: FakeKafka, config: Mapping[str, Any], name: str) -> None:
        self.name = name
        self._fake = fake
        self.config = dict(config)
        self._in_flight: list[Outgoing] = []
        self._reports: deque[tuple[Outgoing, KafkaError | None, Place | None]] = deque()
        self._answers: deque[Callable[[], object]] = deque()
        self._closed = False
        self._broken: KafkaError | None = None
        self._largest_bytes = int(config.get("message.max.bytes", 1_000_000))
        self._longest_queue = int(config.get("queue.buffering.max.messages", 100_000))
        default_ms = config.get("delivery.timeout.ms", 300_000)
        self._timeout_s = float(config.get("message.timeout.ms", default_ms)) / 1000
        self._transactions: Transactions | None = None
        if "transactional.id" in config:
            longest_s = float(config.get("transaction.timeout.ms", 60_000)) / 1000
            name = str(config["transactional.id"])
            self._transactions = Transactions(fake, name, longest_s)

    def produce(
        self,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        partition: int = _PARTITION_ANY,
        on_delivery: Report | None = None,
        timestamp: int = 0,
        headers: Headers | None = None,
    ) -> None:
        self._enter("produce", topic, value, key, partition)
        if self._transactions is not None:
            self._transactions.require_one()
        injected = self._fake.faults.takes_produce_error()
        if injected is not None:
            raise injected
        if self._broken is not None:
            raise KafkaException(KafkaError(KafkaError._FATAL, self._broken.str(), True))
        sent_ms = timestamp or self._fake.clock.utc_ms()
        parts = as_bytes(value), as_bytes(key), sent_headers(headers)
        outgoing = Outgoing(topic, partition, *parts, sent_ms, on_delivery)
        self._refuse(outgoing)
        self._in_flight.append(outgoing)
        broken = self._fake.faults.takes_break()
        if broken is not None:
            self._break(broken)
        self._fake.clock.at(self._delivery_s(topic), lambda: self._settle(outgoing))

    def poll(self, timeout: float = -1) -> int:
        """Serve delivery reports; wait for the first where there is none yet."""
        self._enter("poll", timeout)
        clock = self._fake.clock
        endless = timeout < 0 or math.isinf(timeout)
        deadline_s = math.inf if endless else clock.now_s() + int(timeout * 1000) / 1000
        clock.run_due()
        while not (self._reports or self._answers) and clock.now_s() < deadline_s:
            clock.wait(deadline_s)
        return self._serve()

    def flush(self, timeout: float = -1) -> int:
        """Wait until everything is answered, at most `timeout`; how many are not."""
        self._enter("flush", timeout)
        clock = self._fake.clock
        deadline_s = math.inf if timeout < 0 else clock.now_s() + timeout
        clock.run_due()
        while self._in_flight and clock.now_s() < deadline_s:
            clock.wait(deadline_s)
        self._serve()
        return len(self)

    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:
        """Give up what is not answered: each gets a report that says so."""
        self._enter("purge")
        for outgoing in self._in_flight:
            self._reports.append((outgoing, _PURGED, None))
        self._in_flight.clear()

    def init_transactions(self, timeout: float = -1) -> None:
        self._transactional("init_transactions").initialise(timeout)

    def begin_transaction(self) -> None:
        self._transactional("begin_transaction").begin()

    def send_offsets_to_transaction(
        self, positions: list[TopicPartition], group_metadata: bytes, timeout: float = -1
    ) -> None:
        transactions = self._transactional("send_offsets_to_transaction", str(positions))
        transactions.send_offsets(positions, group_metadata, timeout)

    def commit_transaction(self, timeout: float = -1) -> None:
        transactions = self._transactional("commit_transaction")
        transactions.commit(timeout, lambda: self.flush(self._timeout_s))

    def abort_transaction(self, timeout: float = -1) -> None:
        self._transactional("abort_transaction").abort(timeout, self.purge)

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        self._enter("list_topics", topic)
        self._fake.require_brokers(timeout)
        return self._fake.metadata(topic)

    def close(self) -> bool:
        self._closed = True
        return True

    def fail(self, error: KafkaError) -> None:
        """The next poll raises what is fatal, as confluent_kafka does; else `error_cb` gets it."""
        if error.fatal() or error.code() == KafkaError._FATAL:
            self._answers.append(partial(_raise, KafkaException(error)))
        elif (callback := self.config.get("error_cb")) is not None:
            self._answers.append(partial(callback, error))

    def __len__(self) -> int:
        return len(self._in_flight) + len(self._reports)

    def _refuse(self, outgoing: Outgoing) -> None:
        if outgoing.size_bytes > self._largest_bytes:
            text = "Unable to produce message: Broker: Message size too large"
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, text))
        topic = self._fake.topics.get(outgoing.topic)
        if topic is not None and outgoing.partition >= len(topic.partitions):
            text = "Unable to produce message: Local: Unknown partition"
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION, text))
        if len(self) >= self._longest_queue:
            raise BufferError("Local: Queue full")

    def _delivery_s(self, topic: str) -> float:
        faults = self._fake.faults
        if faults.brokers_down:
            return self._timeout_s
        if topic not in self._fake.topics:
            return min(_UNKNOWN_TOPIC_S, self._timeout_s)
        return min(faults.delivery_s, self._timeout_s)

    def _settle(self, outgoing: Outgoing) -> None:
        if outgoing not in self._in_flight:
            return
        error, place = self._outcome(outgoing)
        if error is _UNTOLD:
            return  # in flight for ever
        self._in_flight.remove(outgoing)
        if error is not None and self._transactions is not None:
            self._transactions.failed = error
        self._reports.append((outgoing, error, place))

    def _break(self, error: KafkaError) -> None:
        """Nothing goes out any more, and no transaction is ended."""
        self._broken = error
        self.fail(error)
        if self._transactions is not None:
            self._transactions.break_off(error)

    def _outcome(self, outgoing: Outgoing) -> tuple[KafkaError | None, Place | None]:
        error = self._failure(outgoing)
        topic = self._fake.topics.get(outgoing.topic)
        if error is not None or topic is None:
            return error, None
        fault = self._fake.faults.takes_delivery_fault()
        if fault is not None and not fault.lands:
            return fault.error or _UNTOLD, None
        place = self._append(topic, outgoing)
        if fault is not None:
            return fault.error or _UNTOLD, None
        if self._fake.faults.delivery_s > self._timeout_s:
            # Ambiguous: the record is there, and the report says that it timed out.
            return _TIMED_OUT, None
        return None, place

    def _failure(self, outgoing: Outgoing) -> KafkaError | None:
        """Why the record cannot be there, if so."""
        topic = self._fake.topics.get(outgoing.topic)
        if self._broken is not None:
            return KafkaError(KafkaError._FATAL, self._broken.str())
        if self._fake.faults.brokers_down or (topic is None and self._timeout_s < _UNKNOWN_TOPIC_S):
            return _TIMED_OUT
        if topic is None:
            return KafkaError(KafkaError._UNKNOWN_TOPIC, "Local: Unknown topic")
        number = _partition_of(outgoing, topic)
        if outgoing.size_bytes > topic.max_message_bytes:
            if self._transactions is not None:
                self._transactions.skip_number(outgoing.topic, number)
            return KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "Broker: Message size too large")
        if self._transactions is not None and self._transactions.misses(outgoing.topic, number):
            return _PURGED
        if self._transactions is not None and self._transactions.is_fenced:
            text = "Local: This instance has been fenced by a newer instance"
            return KafkaError(KafkaError._FENCED, text)
        return None

    def _append(self, topic: FakeTopic, outgoing: Outgoing) -> Place:
        number = _partition_of(outgoing, topic)
        log, own = topic.partitions[number], self._transactions
        content = (outgoing.value, outgoing.key, outgoing.headers, outgoing.timestamp_ms)
        offset = log.append(*content, pending=own is not None)
        if own is not None:
            self._fake.transactions.add_record(own.name, log, offset, own.timeout_s)
        return number, offset

    def _serve(self) -> int:
        served = 0
        while self._answers:
            self._answers.popleft()()
        while self._reports:
            outgoing, error, place = self._reports.popleft()
            served += 1
            self._fake.note(self.name, "on_delivery", (outgoing.topic, error and error.name()))
            if outgoing.report is not None:
                outgoing.report(error, reported(outgoing, error, place))
        return served

    def _transactional(self, call: str, *arguments: object) -> Transactions:
        self._enter(call, *arguments)
        if self._transactions is None:
            text = "The Transactional API requires transactional.id to be configured"
            raise KafkaException(KafkaError(KafkaError._NOT_CONFIGURED, text))
        return self._transactions

    def _enter(self, call: str, *arguments: object) -> None:
        if self._closed:
            raise RuntimeError("Producer has been closed")
        self._fake.note(self.name, call, arguments)


def _partition_of(outgoing: Outgoing, topic: FakeTopic) -> int:
    if outgoing.partition != _PARTITION_ANY:
        return outgoing.partition
    return zlib.crc32(outgoing.key or b"") % len(topic.partitions)


def _raise(error: BaseException) -> None:
    raise error
