"""Reads a journal's topic from a time on, and follows it."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from linear_retry.errors import UnknownTopicError
from linear_retry.journal.entry import DEFAULT_TOPIC, Entry, Unreadable, read_entry
from linear_retry.kafka.topics.reader import Progress
from linear_retry.kafka.topics.standalone_consumer import ANSWER_TIMEOUT_S
from linear_retry.kafka.topics.tail import TopicTail


class JournalTail:
    """Reads a journal from a time on: the `backlog` first, then, within `follow`, new entries.

    `config` holds librdkafka's keys. It joins no group and commits nothing: permission to read the
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
        """`since_ms`, UTC: older entries are left out."""
        self.topic = topic
        self._tail = TopicTail(config, topic, since_ms, timeout_s)

    @property
    def trouble(self) -> str | None:
        """Why nothing can be read at the moment; reading resumes by itself."""
        return self._tail.trouble

    def backlog(self, progress: Progress | None = None) -> Iterator[Entry | Unreadable]:
        """The entries that exist at the time of the call, each partition in order.

        Raises `UnknownTopicError`, and `BrokerError` if no broker answers or one refuses.
        """
        try:
            for records in self._tail.backlog(progress):
                for record in records:
                    yield read_entry(record.value)
        except UnknownTopicError as error:
            raise UnknownTopicError(
                f"{error}, or create it and add a Journal to the listeners of your consumers"
            ) from error

    def follow(self) -> AbstractContextManager[object]:
        """Within this context, `read` returns the entries after the backlog."""
        return self._tail.follow()

    def read(self, wait_s: float) -> list[Entry | Unreadable]:
        """The new entries, waiting up to `wait_s` for the first.

        Raises `BrokerError` if reading is refused for good.
        """
        return [read_entry(record.value) for record in self._tail.read(wait_s)]
