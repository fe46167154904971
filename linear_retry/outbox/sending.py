"""Gives each message to Kafka or to the store, and keeps it until one of them has it."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from linear_retry.kafka.producers.direct import DirectProducer, Unsent, too_large
from linear_retry.outbox.held_lanes import HeldLanes, Lane
from linear_retry.outbox.message import OutboxMessage, message_of
from linear_retry.store.lanes import slot_of

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
        *,
        queue_messages: int,
        largest_bytes: int,
    ) -> None:
        self.wake = threading.Event()
        """Set when the keeper has something to do."""
        self.error: Any = None
        """Why messages were last stored."""
        self._make = make
        self._held = held
        self._queue_messages = queue_messages
        self._largest_bytes = largest_bytes
        self._lock = threading.Lock()
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
    def must_store(self) -> bool:
        """Whether there is something to `take`."""
        return bool(self._failed or self._to_store)

    def send(self, number: int, unsent: Unsent) -> None:
        """Sends a message, or lets it be stored. Raises as `DirectProducer.send`."""
        with self._lock:
            if self._direct.has_failed:
                self._replace()
            may_be_sent = not (
                self._held.any and _may_be_stored(unsent) and self._held.holds(_lane_of(unsent))
            )
            if may_be_sent and self._direct.send(number, unsent):
                return
            self._keep(unsent)

    def checked(self, unsent: Unsent) -> OutboxMessage:
        """Returns the message if a producer would take it; raises as that does."""
        message = message_of(unsent)
        size_bytes = len(message.key or b"") + len(message.value or b"")
        if size_bytes > self._largest_bytes:
            raise too_large(size_bytes, self._largest_bytes)
        return message

    def poll(self, timeout_s: float) -> None:
        """Waits for delivery reports, at most `timeout_s`."""
        self._direct.poll(timeout_s)

    def look(self, timeout_s: float) -> None:
        """Ends direct sending if a message has failed, or was not acknowledged for `timeout_s`."""
        self._direct.poll_if_idle()
        self._direct.mark(timeout_s)
        if self._direct.has_failed:
            self.end_direct()

    def end_direct(self) -> None:
        """Lets everything that is not acknowledged be stored."""
        with self._lock:
            self._replace()

    def take(self) -> list[Unsent]:
        """Returns what is to be stored, in order; `done` says that it is."""
        taken: list[Unsent] = []
        while True:
            ended = self._failed[:]
            undelivered = [unsent for each in ended for unsent in each.drain(_DRAIN_S)]
            taken += undelivered
            with self._lock:
                del self._failed[: len(ended)]
                self._taken += len(undelivered)
                for unsent in undelivered:
                    self._held.add(_lane_of(unsent))
                # What has failed meanwhile is older than what waits here behind it.
                if not self._failed:
                    self._taken += len(self._to_store)
                    taken += self._to_store
                    self._to_store.clear()
                    return taken

    def done(self, count: int) -> None:
        """Forgets so many of those taken: the store has them, or their senders were told."""
        with self._lock:
            self._taken -= count

    def settle(self, waiting: set[Lane]) -> None:
        """Sends directly again what cannot overtake the messages in the store's `waiting` lanes."""
        with self._lock:
            if not self._failed:
                self._held.settle(waiting | {_lane_of(unsent) for unsent in self._to_store})

    def _replace(self) -> None:
        new = self._make()
        self.error = self._direct.error
        self._failed.append(self._direct)
        self._direct = new
        self._held.close()
        self.wake.set()

    def _keep(self, unsent: Unsent) -> None:
        self.checked(unsent)
        if len(self._to_store) >= self._queue_messages:
            raise BufferError(
                f"{len(self._to_store)} messages wait to be stored, at most "
                f"queue.buffering.max.messages={self._queue_messages}: poll, and try again"
            )
        if self._direct.has_failed:
            self._replace()
        self._held.add(_lane_of(unsent))
        self._to_store.append(unsent)
        self.wake.set()


def _may_be_stored(unsent: Unsent) -> bool:
    return unsent[-2]


def _lane_of(unsent: Unsent) -> Lane:
    topic, _, key, partition, *_ = unsent
    content = key.encode() if isinstance(key, str) else key
    return topic, slot_of(content, None if partition < 0 else partition)
