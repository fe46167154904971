"""Gives each message to Kafka or to the store, and keeps it until one of them has it."""

import threading
from collections import deque
from collections.abc import Callable, Sequence, Set

from linear_retry.errors import UsageError
from linear_retry.kafka import KafkaException
from linear_retry.kafka.producers.direct import DirectProducer, Unsent, text_of, too_large
from linear_retry.outbox.held_lanes import HeldLanes, Lane
from linear_retry.outbox.message import OutboxMessage, message_of
from linear_retry.records.topics.names import is_topic_name
from linear_retry.store.records import slot_of

_DRAIN_S = 10.0


class Sending:
    """The messages that neither Kafka nor the store has yet. Threads may share it.

    Once one has failed, no message is sent directly that could overtake it: the direct producer is
    replaced, and what the old one has not delivered is stored, in the order of `send`, before what
    came later. One thread, the keeper, calls `look`, `take`, `done` and `settle`.
    """

    def __init__(
        self,
        make: Callable[[], DirectProducer],
        held: HeldLanes,
        next_number: Callable[[], int],
        *,
        queue_messages: int,
        largest_bytes: int,
    ) -> None:
        self.wake = threading.Event()
        """Set when the keeper has something to do."""
        self.reason = "the store has earlier ones, which are sent first"
        """Why messages are stored."""
        self._make = make
        self._held = held
        self._next_number = next_number
        self._queue_messages = queue_messages
        self._largest_bytes = largest_bytes
        self._lock = threading.Lock()
        self._is_stored = threading.Condition(self._lock)
        self._names: set[str] = set()
        self._direct = make()
        self._failed: list[DirectProducer] = []
        self._to_store: deque[Unsent] = deque()
        self._taken = 0

    def __len__(self) -> int:
        """The number of messages that neither Kafka nor the store is known to have."""
        with self._lock:
            producers = sum(len(each) for each in (self._direct, *self._failed))
            return producers + len(self._to_store) + self._taken

    @property
    def holds_any(self) -> bool:
        """Whether any message has to go through the store."""
        return self._held.any

    @property
    def is_failing(self) -> bool:
        """Whether nothing shows yet that Kafka takes messages again after a failure."""
        return bool(self._failed) or self._held.all_closed

    @property
    def must_store(self) -> bool:
        """Whether there is something to `take`."""
        return bool(self._failed or self._to_store)

    def send(self, number: int, unsent: Unsent) -> None:
        """Sends a message, or lets it be stored. Raises as `DirectProducer.send`.

        Raises `UsageError` for a topic that no broker accepts.
        """
        if unsent[0] not in self._names:
            self._check_name(unsent[0])
        with self._lock:
            if self._direct.has_failed:
                self._replace()
            may_be_sent = not (
                self._held.any and _may_be_stored(unsent) and self._held.holds(lane_of(unsent))
            )
            if may_be_sent and self._direct.send(number, unsent):
                return
            self._keep(unsent)

    def checked(self, unsent: Unsent) -> OutboxMessage:
        """Returns the message if a producer would take it; raises as that does."""
        self._check_name(unsent[0])
        message = message_of(unsent)
        size_bytes = len(message.key or b"") + len(message.value or b"")
        if size_bytes > self._largest_bytes:
            raise too_large(size_bytes, self._largest_bytes)
        return message

    def poll(self, timeout_s: float) -> None:
        """Waits for delivery reports, at most `timeout_s`."""
        self._direct.poll(timeout_s)

    def flush(self, timeout_s: float) -> None:
        """Waits, at most `timeout_s`, until Kafka has what was sent, or the store some of the rest.

        Kafka comes first; it may be that neither has, as another message has failed meanwhile.
        """
        if len(self._direct):
            self._direct.flush(timeout_s)
            return
        with self._lock:
            if self.must_store or self._taken:
                self._is_stored.wait(timeout_s)

    def look(self, timeout_s: float) -> None:
        """Ends direct sending if a message has failed, or was not acknowledged for `timeout_s`."""
        self._direct.poll_if_idle()
        self._direct.mark(timeout_s)
        if self._direct.has_failed:
            self.end_direct()

    def is_kafka_there(self, topic: str, within_s: float) -> bool:
        """Asks about a topic whether a broker answers, though messages have failed."""
        return self._direct.is_answered(topic, within_s)

    def end_direct(self) -> None:
        """Lets everything that is not acknowledged be stored."""
        with self._lock:
            self._replace()

    def take(self, nearly_empty: Set[Lane] = frozenset()) -> list[Unsent]:
        """Returns what is to be stored, in order; `done` says that it is.

        Messages of lanes that are `nearly_empty` in the store stay, unless Kafka takes nothing.
        """
        taken: list[Unsent] = []
        while True:
            ended = self._failed[:]
            undelivered = [unsent for each in ended for unsent in each.drain(_DRAIN_S)]
            taken += undelivered
            with self._lock:
                del self._failed[: len(ended)]
                self._taken += len(undelivered)
                for unsent in undelivered:
                    self._held.add(lane_of(unsent))
                # What has failed meanwhile is older than what waits here behind it.
                if not self._failed:
                    return taken + self._take_waiting(nearly_empty)

    def _take_waiting(self, nearly_empty: Set[Lane]) -> list[Unsent]:
        waiting, self._to_store = self._to_store, deque()
        taken: list[Unsent] = []
        for unsent in waiting:
            lane = lane_of(unsent)
            if lane in nearly_empty and not self.is_failing:
                self._to_store.append(unsent)
            else:
                self._held.add(lane)
                taken.append(unsent)
        self._taken += len(taken)
        return taken

    def done(self, count: int) -> None:
        """Forgets so many of those taken: the store has them, or their senders were told."""
        with self._lock:
            self._taken -= count
            self._is_stored.notify_all()

    def put_back(self, taken: Sequence[Unsent], in_store: Set[Lane]) -> None:
        """Takes back all that was taken and is not stored, in order; sends of it what may be sent.

        That is what has no predecessor in the store, which has messages of the lanes `in_store`.
        """
        with self._lock:
            self._taken -= len(taken)
            self._to_store.extendleft(reversed(taken))
        self.settle(in_store)

    def settle(self, waiting: Set[Lane]) -> None:
        """Sends directly again what cannot overtake the messages in the store's `waiting` lanes."""
        with self._lock:
            if not self._failed:
                self._held.settle(waiting, {topic for topic, *_ in self._to_store})
                self._send_kept()

    def _send_kept(self) -> None:
        """Sends what need not be stored any more: else a busy lane would stay in the store."""
        kept, self._to_store = self._to_store, deque()
        for unsent in kept:
            lane = lane_of(unsent)
            if self._held.holds(lane):
                self._to_store.append(unsent)
            elif not self._is_sent(unsent):
                self._held.add(lane)
                self._to_store.append(unsent)

    def _is_sent(self, unsent: Unsent) -> bool:
        if self._direct.has_failed:
            return False
        try:
            return self._direct.send(self._next_number(), unsent)
        except (BufferError, KafkaException):  # a full queue; the store's sender finds out the rest
            return False

    def _check_name(self, topic: str) -> None:
        if not is_topic_name(topic):
            raise UsageError(
                f"topic {topic!r}: no topic can have this name; it has at most 249 letters, "
                "digits, dots, underscores and hyphens"
            )
        self._names.add(topic)

    def _replace(self) -> None:
        new = self._make()
        self.reason = text_of(self._direct.error)
        self._failed.append(self._direct)
        self._direct = new
        self._held.close()
        self.wake.set()

    def _keep(self, unsent: Unsent) -> None:
        self.checked(unsent)
        waiting = len(self._to_store) + self._taken
        if waiting >= self._queue_messages:
            raise BufferError(
                f"{waiting} messages wait to be stored, at most "
                f"queue.buffering.max.messages={self._queue_messages}: poll, and try again"
            )
        if self._direct.has_failed:
            self._replace()
        self._held.note(unsent[0])
        self._to_store.append(unsent)
        if self.is_failing:
            self.wake.set()


def _may_be_stored(unsent: Unsent) -> bool:
    return unsent[-2]


def lane_of(unsent: Unsent) -> Lane:
    """Returns the lane of a message."""
    topic, _, key, partition, *_ = unsent
    content = key.encode() if isinstance(key, str) else key
    return topic, slot_of(content, None if partition < 0 else partition)
