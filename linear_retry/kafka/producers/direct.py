"""The direct producer: keeps each record until it is acknowledged, and gives back the rest."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from linear_retry.kafka.producers.acknowledged import TOO_LARGE, ProducerHandle
from linear_retry.kafka.quiet import free_in_thread
from linear_retry.records.retry_headers import MESSAGE_ID

_SLICE_S = 0.1
_POLL_EVERY = 0xFF  # a mask: every 256th record
_PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
# What the caller has to correct; the store would only hide it.
_CALLERS = TOO_LARGE | {KafkaError._INVALID_ARG}

OnDelivery: TypeAlias = Callable[[Any, Any], object]
Unsent: TypeAlias = tuple[
    str,
    bytes | str | None,
    bytes | str | None,
    int,
    int,
    Sequence[tuple[str, Any]],
    bytes,
    bool,
    OnDelivery | None,
]
"""Topic, value, key, partition (-1: by key), timestamp in ms (0: now), the caller's headers, the
`retry-message-id`, whether it may be stored and sent later, and the caller's `on_delivery`.

A plain tuple: one is made for every message, and a named one takes 0.3 us longer. With no list in
it, the garbage collector stops looking at it, which saves 1 us.
"""


class Report(NamedTuple):
    """What became of a message, for its `on_delivery`."""

    unsent: Unsent
    error: Any = None
    partition: int | None = None
    offset: int | None = None
    """None: not in Kafka, or the store has it."""


class DirectProducer(ProducerHandle):
    """A confluent_kafka `Producer` whose records can be taken back in the order of `send`.

    It keeps a record until it is acknowledged. Once one has failed, `has_failed` says so; then
    nothing more may be sent, and `drain` gives back what is undelivered. Threads may share it.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        reports: deque[Report],
        producer: Callable[..., Any] = Producer,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`config` is that of `direct_settings`; `reports` takes what callers are to be told."""
        super().__init__(config, producer)
        self.has_failed = False
        self.error: KafkaError | None = None
        """Why; None if records were only overdue."""
        self._reports = reports
        self._now_s = now_s
        self._undelivered: dict[int, Unsent] = {}
        self._marks: deque[tuple[int, float]] = deque()
        self._last = 0
        self._is_polled = False
        self._polling = threading.RLock()
        self._numbered = _callbacks(self._undelivered, self._reports, self._report_error)
        self.check()

    def __len__(self) -> int:
        """The number of records that are not acknowledged."""
        return len(self._undelivered)

    def send(self, number: int, unsent: Unsent) -> bool:
        """Hands over a record; False if this producer can take none. `number` only ever grows.

        Raises `BufferError` if the queue is full, and `KafkaException` or `TypeError` for a record
        that no producer takes. One that must not be stored raises whatever the reason.
        """
        topic, value, key, partition, timestamp_ms, headers, message_id, may_be_stored, _ = unsent
        on_delivery = self._numbered(number)
        self._undelivered[on_delivery] = unsent
        self._last = number
        try:
            self._producer.produce(
                topic,
                value,
                key,
                partition,
                on_delivery=on_delivery,
                timestamp=timestamp_ms,
                headers=[*headers, (MESSAGE_ID, message_id)],
            )
        except BaseException as error:
            del self._undelivered[number]
            if not may_be_stored or not isinstance(error, KafkaException):
                raise
            return self._refused(error)
        if not number & _POLL_EVERY:
            self.poll(0.0)
        return True

    def poll(self, timeout_s: float) -> None:
        """Takes delivery reports; waits for one for at most `timeout_s`.

        Does nothing while another thread polls. Calls none of the caller's code: librdkafka
        would lose the reports that follow one whose callback raises.
        """
        self._take_reports("poll", timeout_s)

    def flush(self, timeout_s: float) -> None:
        """As `poll`, but sends at once what waits for `linger.ms`, and waits for all reports."""
        self._take_reports("flush", timeout_s)

    def _take_reports(self, call: Literal["poll", "flush"], timeout_s: float) -> None:
        if self._polling.acquire(blocking=timeout_s > 0, timeout=_SLICE_S if timeout_s > 0 else -1):
            try:
                self._is_polled = True
                if self._producer is not None:
                    getattr(self._producer, call)(min(timeout_s, _SLICE_S))
            except KafkaException as fatal:
                self._fail(fatal.args[0])
            except SystemError as lost:
                # confluent-kafka 2.16 loses what Ctrl-C raises within a callback.
                raise KeyboardInterrupt from lost
            finally:
                self._polling.release()

    def poll_if_idle(self) -> None:
        """Takes delivery reports unless somebody has done so since the last call.

        Two threads that take reports while a third sends hand each other the interpreter: that
        tripled the time of `send`.
        """
        if not self._is_polled:
            self.poll(0.0)
        self._is_polled = False

    def is_answered(self, topic: str, within_s: float) -> bool:
        """Whether a broker answers a question about a topic within that time.

        Not about all: those of a large cluster may take longer, each time.
        """
        try:
            self._handle().list_topics(topic, timeout=within_s)
        except KafkaException:
            return False
        return True

    def mark(self, timeout_s: float) -> None:
        """Notes the time, and sets `has_failed` if a record has waited for `timeout_s`.

        Called now and then: one note for many records is cheaper than a time for each.
        """
        now_s = self._now_s()
        # One call into C: no other thread changes the dictionary meanwhile.
        oldest = min(self._undelivered, default=self._last + 1)
        while self._marks and self._marks[0][0] < oldest:
            self._marks.popleft()
        if self._marks and now_s - self._marks[0][1] >= timeout_s:
            self.has_failed = True
        if not self._marks or self._marks[-1][0] < self._last:
            self._marks.append((self._last, now_s))

    def drain(self, within_s: float) -> list[Unsent]:
        """Ends the producer; returns the records that are not known to be delivered, in order.

        Some of them may be: what was under way is not waited for. Waits `within_s` at most for
        librdkafka to say what was acknowledged before.
        """
        until_s = self._now_s() + within_s
        with self._polling:
            self._producer.purge()
            while len(self._producer) and self._now_s() < until_s:
                with suppress(KafkaException):  # fatal: that is why it ends
                    self._producer.poll(_SLICE_S)
            last, self._producer = [self._producer], None
        free_in_thread(last, "outbox")
        for number in list(self._undelivered):
            self._report_error(number, KafkaError(KafkaError._MSG_TIMED_OUT))
        return list(self._undelivered.values())

    def _report_error(self, number: int, error: KafkaError) -> None:
        unsent = self._undelivered.get(number)
        if unsent is None:
            return
        *_, may_be_stored, on_delivery = unsent
        if may_be_stored:
            self._fail(error)
            return
        del self._undelivered[number]
        if on_delivery is not None:
            if error.code() in _PURGED:
                error = KafkaError(KafkaError._MSG_TIMED_OUT)
            self._reports.append(Report(unsent, error))

    def _refused(self, error: KafkaException) -> bool:
        if error.args[0].code() in _CALLERS:
            raise error
        self._fail(error.args[0])
        return False

    def _fail(self, error: KafkaError) -> None:
        self.has_failed = True
        if self.error is None and error.code() not in _PURGED:
            self.error = error


def _callbacks(
    undelivered: dict[int, Unsent],
    reports: deque[Report],
    fail: Callable[[int, KafkaError], object],
) -> type[Any]:
    """Returns a type of numbers that can be called, to report what became of their message.

    One is made for every message. Unlike a closure it is nothing to the garbage collector, which
    would look at thousands of them again and again: 1 us for each message.
    """

    class Number(int):
        __slots__ = ()

        def __call__(self, error: KafkaError | None, message: Message) -> None:
            if error is not None:
                fail(self, error)
                return
            # Kept until here: should Ctrl-C strike in between, it is sent twice, and never lost.
            unsent = undelivered.pop(self, None)
            if unsent is not None and unsent[-1] is not None:
                reports.append(Report(unsent, None, message.partition(), message.offset()))

    return Number


def too_large(size_bytes: int, largest_bytes: int) -> KafkaException:
    """Returns the error of a producer that is handed a message beyond `message.max.bytes`."""
    text = f"the message has {size_bytes} bytes, at most message.max.bytes={largest_bytes}"
    return KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, text))


def text_of(error: KafkaError | None) -> str:
    """Returns the text of what a direct producer's `error` says."""
    return "no acknowledgement in time" if error is None else error.str()
