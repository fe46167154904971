"""Asks for a group's committed offsets without joining it."""

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from confluent_kafka import Consumer, KafkaException, TopicPartition

from linear_retry.kafka.quiet import close_in_thread
from linear_retry.scope import Partition

_Found: TypeAlias = dict[Partition, tuple[int, str]] | None

_CLOSE_WITHIN_S = 1.0


class Committed:
    """Reads committed offsets with a client that never joins, created on first use. Thread-safe.

    Not the admin client's list_consumer_group_offsets: if the group's coordinator moves, or an
    answer is late, it crashes the process (librdkafka #4605, #5040).
    """

    def __init__(
        self,
        connection: Mapping[str, Any],
        group_id: str,
        consumer: Callable[..., Any] = Consumer,
    ) -> None:
        """`connection` has the keys for brokers and security."""
        self._config = {
            "log_level": 0,  # the consumer itself reports what is wrong with the brokers
            **connection,
            "group.id": group_id,
            "enable.auto.commit": False,
            "allow.auto.create.topics": False,
            # Else it waits for an open transaction that may commit here.
            "isolation.level": "read_uncommitted",
        }
        self._make = consumer
        self._handle: Any = None
        self._using = threading.Lock()
        self._closed = False

    def ask(self, partitions: Iterable[Partition], timeout_s: float) -> dict[Partition, int] | None:
        """Returns the committed offsets that exist. None: no answer in time, or a refusal."""
        found = self.ask_with_notes(partitions, timeout_s)
        return None if found is None else {key: offset for key, (offset, _) in found.items()}

    def ask_with_notes(self, partitions: Iterable[Partition], timeout_s: float) -> _Found:
        """As `ask`, each with the text beside it, empty for none."""
        if not self._using.acquire(timeout=timeout_s):
            return None
        try:
            return None if self._closed else self._ask(partitions, timeout_s)
        finally:
            if self._closed:  # by a caller that did not wait for us
                self._drop(_CLOSE_WITHIN_S)
            self._using.release()

    def close(self) -> None:
        """Stops asking. Does not wait for a request in progress."""
        self._closed = True
        # Closed during a call, librdkafka would use freed memory.
        if self._using.acquire(blocking=False):
            self._drop(_CLOSE_WITHIN_S)
            self._using.release()

    def _ask(self, partitions: Iterable[Partition], timeout_s: float) -> _Found:
        if self._handle is None:
            self._handle = self._make(self._config)
        self._handle.poll(0)  # otherwise errors pile up
        try:
            answers = self._handle.committed(
                [TopicPartition(*key) for key in partitions], timeout=timeout_s
            )
        except KafkaException:
            # It may have lost all brokers for good (librdkafka #5301).
            self._drop(within_s=0.0)
            return None
        if any(item.error is not None for item in answers):
            return None
        return {
            (item.topic, item.partition): (item.offset, item.metadata or "")
            for item in answers
            if item.offset >= 0
        }

    def _drop(self, within_s: float) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            close_in_thread(handle, "lag", within_s)
