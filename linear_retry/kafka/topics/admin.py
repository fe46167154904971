"""Queries the brokers without blocking, for what a consumer could only ask by waiting."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeAlias, TypeVar

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec  # type: ignore[attr-defined]  # exported by import only

from linear_retry.kafka.topics.description import NO_ID
from linear_retry.scope import Partition

Rights: TypeAlias = frozenset[str] | None
"""Operations by Kafka's names, such as `READ`. None: this broker does not report them."""

_Read = TypeVar("_Read")

_ANSWER_WITHIN_S = 10.0
_NOT_FOR_ADMIN = ("isolation.level", "logger")
_UNANSWERED = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        # "No leaders found": a client caches leaders for 15 minutes (librdkafka 2.16), so one that
        # asked while a broker was down would not see it again.
        KafkaError._NOENT,
    }
)


class Admin:
    """Sends queries to the brokers, each answered by a Future; never waits.

    Each is answered within some 10 s, if only by an error. The client, with its threads and
    connections, is created at the first query: few need one.
    """

    def __init__(self, config: Mapping[str, Any], admin: Callable[..., Any] = AdminClient) -> None:
        """`config` has the keys for brokers and security, and `isolation.level` if set."""
        uncommitted = config.get("isolation.level") == "read_uncommitted"
        self._isolation = (
            IsolationLevel.READ_UNCOMMITTED if uncommitted else IsolationLevel.READ_COMMITTED
        )
        # Its log would pile up unpolled, and the consumer reports what is wrong with the brokers.
        kept = {key: value for key, value in config.items() if key not in _NOT_FOR_ADMIN}
        self._config = kept | {"log_level": 0}
        self._make = admin
        self._admin: Any = None
        self._unanswered = False
        self._open: set[Future[Any]] = set()
        self._settling = threading.Lock()

    def ask_end(self, partition: Partition) -> Future[int]:
        """Asks for the offset after the last one that our isolation level may read."""
        return self.ask_ends([partition])[partition]

    def ask_ends(
        self, partitions: Sequence[Partition], *, committed: bool = True
    ) -> dict[Partition, Future[int]]:
        """Like `ask_end`, for several partitions in one request.

        `committed` false: whatever our isolation level is, open transactions count too.
        """
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the client has no types for it
        isolation = self._isolation if committed else IsolationLevel.READ_UNCOMMITTED
        return self._ask_offsets(partitions, latest, isolation)

    def ask_beginnings(self, partitions: Sequence[Partition]) -> dict[Partition, Future[int]]:
        """Asks for the first offset that still exists in each."""
        earliest = OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # the client has no types for it
        return self._ask_offsets(partitions, earliest, self._isolation)

    def ask_ids(self, topics: Sequence[str]) -> dict[str, Future[str]]:
        """Asks for each topic's id, which no other topic has, of the same name neither."""
        asked = TopicCollection(list(topics))
        answers = self._handle().describe_topics(asked, request_timeout=_ANSWER_WITHIN_S)
        return {topic: self._answer(answers[topic], _topic_id) for topic in topics}

    def ask_retention_ms(self, topic: str) -> Future[int]:
        """Asks for the topic's `retention.ms`; -1: for ever, or until it is compacted away."""
        return self._ask_settings(ConfigResource.Type.TOPIC, topic, _retention_ms)

    def ask_session_timeout_ms(self, group: str) -> Future[int]:
        """Asks for the session timeout of this KIP-848 group, which only the broker knows."""
        return self._ask_settings(
            ConfigResource.Type.GROUP,
            group,
            lambda entries: int(entries["consumer.session.timeout.ms"].value),
        )

    def ask_rights(self, topics: Sequence[str]) -> dict[str, Future[Rights]]:
        """Asks which operations this user may do on each existing topic. Creates none."""
        answers = self._handle().describe_topics(
            TopicCollection(list(topics)),
            include_authorized_operations=True,
            request_timeout=_ANSWER_WITHIN_S,
        )
        return {topic: self._answer(answers[topic], _rights) for topic in topics}

    def ask_brokers(self) -> Future[int]:
        """Asks how many brokers a client finds from the configuration alone."""
        self.close()
        answer = self._handle().describe_cluster(request_timeout=_ANSWER_WITHIN_S)
        return self._answer(answer, lambda cluster: len(cluster.nodes))

    def close(self) -> None:
        """Drops the client, and ends what it was asked: librdkafka drops that without a word."""
        self._admin = None
        dropped = KafkaException(KafkaError(KafkaError._DESTROY, "its client was dropped"))
        for each in tuple(self._open):
            self._settle(each, partial(each.set_exception, dropped))

    def _ask_settings(
        self, kind: Any, name: str, read: Callable[[Mapping[str, Any]], int]
    ) -> Future[int]:
        resource = ConfigResource(kind, name)
        answers = self._handle().describe_configs([resource], request_timeout=_ANSWER_WITHIN_S)
        return self._answer(answers[resource], read)

    def _ask_offsets(
        self, partitions: Sequence[Partition], spec: OffsetSpec, isolation: IsolationLevel
    ) -> dict[Partition, Future[int]]:
        items = {TopicPartition(*key): spec for key in partitions}
        answers = self._handle().list_offsets(
            items,
            isolation_level=isolation,
            request_timeout=_ANSWER_WITHIN_S,
        )
        return {
            (item.topic, item.partition): self._answer(answers[item], lambda info: int(info.offset))
            for item in items
        }

    def _handle(self) -> Any:
        # It may have lost the brokers, as a consumer may. Not where the answer arrives: a
        # client must not be dropped by its own thread.
        if self._unanswered:
            self.close()
        if self._admin is None:
            self._unanswered = False
            self._admin = self._make(self._config)
        return self._admin

    def _answer(self, answer: Future[Any], read: Callable[[Any], _Read]) -> Future[_Read]:
        """Returns a Future of what `read` finds in the answer, or of the error."""
        result: Future[_Read] = Future()
        self._open.add(result)

        def pass_on(done: Future[Any]) -> None:
            error = done.exception()
            if error is not None:
                if isinstance(error, KafkaException) and error.args[0].code() in _UNANSWERED:
                    self._unanswered = True
                self._settle(result, partial(result.set_exception, error))
                return
            try:
                settle = partial(result.set_result, read(done.result()))
            except (KeyError, TypeError, ValueError) as unreadable:
                settle = partial(result.set_exception, unreadable)
            self._settle(result, settle)

        answer.add_done_callback(pass_on)
        return result

    def _settle(self, result: Future[Any], how: Callable[[], object]) -> None:
        # The answer comes on a thread of librdkafka, and its client may be dropped meanwhile.
        with self._settling:
            if result in self._open:
                self._open.remove(result)
                how()


def _retention_ms(entries: Mapping[str, Any]) -> int:
    deletes = "delete" in entries["cleanup.policy"].value
    return int(entries["retention.ms"].value) if deletes else -1


def _topic_id(described: Any) -> str:
    found = str(described.topic_id)
    return "" if found == NO_ID else found


def _rights(described: Any) -> Rights:
    operations = described.authorized_operations
    return None if operations is None else frozenset(one.name for one in operations)
