"""The tail of a journal's topic, as entries."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from linear_retry.journal.entry import DEFAULT_TOPIC, Entry, Unreadable, read_entry
from linear_retry.kafka.topics.reader import Progress
from linear_retry.kafka.topics.standalone_consumer import ANSWER_TIMEOUT_S
from linear_retry.kafka.topics.tail import TopicTail


class JournalTail:
    """Reads a journal from a moment on: the `backlog` first, then, within `follow`, what comes.

    `config` are librdkafka's keys. It is in no group and commits nothing: permission to read the
    topic is enough.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str = DEFAULT_TOPIC,
        *,
        since_ms: int = 0,
        timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> None:
        """`since_ms`: what is older is passed over; UTC."""
        self.topic = topic
        self._tail = TopicTail(config, topic, since_ms, timeout_s)

    @property
    def trouble(self) -> str | None:
        """Why nothing can come at the moment; it goes on by itself."""
        return self._tail.trouble

    def backlog(self, progress: Progress | None = None) -> Iterator[Entry | Unreadable]:
        """What is there when this is called, each partition in order.

        Raises `UnknownTopicError`, and `BrokerError` where no broker answers or one refuses.
        """
        for records in self._tail.backlog(progress):
            for record in records:
                yield read_entry(record.value)

    def follow(self) -> AbstractContextManager[object]:
        """Within it, `read` gives what comes after the backlog."""
        return self._tail.follow()

    def read(self, wait_s: float) -> list[Entry | Unreadable]:
        """What has come, waiting `wait_s` for the first. Raises `BrokerError` where it is refused
        for good."""
        return [read_entry(record.value) for record in self._tail.read(wait_s)]
