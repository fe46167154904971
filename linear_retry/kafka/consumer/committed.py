"""Asks for a group's committed offsets without joining it."""

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from confluent_kafka import Consumer, KafkaException, TopicPartition

from linear_retry.kafka.quiet import close_in_thread
from linear_retry.scope import Partition

_Found: TypeAlias = dict[Partition, int] | None

_CLOSE_WITHIN_S = 1.0


class Committed:
    """One handle that never joins its group, made at the first question. For any thread.

    Not the admin client's list_consumer_group_offsets: where the group's coordinator moves, or an
    answer is late, it ends the process (librdkafka #4605, #5040).
    """

    def __init__(
        self,
        connection: Mapping[str, Any],
        group_id: str,
        consumer: Callable[..., Any] = Consumer,
    ) -> None:
        """`connection` are the keys for brokers and security."""
        self._config = {
            "log_level": 0,  # the consumer itself says what is wrong with the brokers
            **connection,
            "group.id": group_id,
            "enable.auto.commit": False,
            "allow.auto.create.topics": False,
            # Else an open transaction that would commit here is waited for.
            "isolation.level": "read_uncommitted",
        }
        self._make = consumer
        self._handle: Any = None
        self._using = threading.Lock()
        self._closed = False

    def ask(self, partitions: Iterable[Partition], timeout_s: float) -> _Found:
        """Of each where something is committed. None: no answer in time, or a refusal."""
        if not self._using.acquire(timeout=timeout_s):
            return None
        try:
            return None if self._closed else self._ask(partitions, timeout_s)
        finally:
            if self._closed:  # by somebody who did not wait for us
                self._drop(_CLOSE_WITHIN_S)
            self._using.release()

    def close(self) -> None:
        """Nothing is asked any more. Does not wait for a question under way."""
        self._closed = True
        # Closed under a call that uses it, librdkafka would go on in memory that is freed.
        if self._using.acquire(blocking=False):
            self._drop(_CLOSE_WITHIN_S)
            self._using.release()

    def _ask(self, partitions: Iterable[Partition], timeout_s: float) -> _Found:
        if self._handle is None:
            self._handle = self._make(self._config)
        self._handle.poll(0)  # errors pile up otherwise
        try:
            answers = self._handle.committed(
                [TopicPartition(*key) for key in partitions], timeout=timeout_s
            )
        except KafkaException:
            # It may have lost sight of all brokers, for good (librdkafka #5301).
            self._drop(within_s=0.0)
            return None
        if any(item.error is not None for item in answers):
            return None
        return {(item.topic, item.partition): item.offset for item in answers if item.offset >= 0}

    def _drop(self, within_s: float) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            close_in_thread(handle, "lag", within_s)
