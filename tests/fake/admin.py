"""The fake admin client, for the requests that the library makes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import (
    ConsumerGroupState,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported by import only
    AclOperation,
    ConfigEntry,
    ConfigResource,
    ListOffsetsResultInfo,
    OffsetSpec,
)

if TYPE_CHECKING:
    from tests.fake.cluster import FakeKafka

_Question = TypeVar("_Question")

_TIMEOUT_S = 5.0


class FakeAdmin:
    """Answers come after `faults.admin_answer_s` of virtual time.

    With None, or the brokers down, the answer is that none came, after `_TIMEOUT_S`: librdkafka
    leaves no question open.
    """

    def __init__(self, fake: FakeKafka) -> None:
        self._fake = fake

    def describe_cluster(self, **_: Any) -> Future[SimpleNamespace]:
        self._fake.note("admin", "describe_cluster", ())
        cluster = SimpleNamespace(nodes=[SimpleNamespace(id=1)])
        return self._answers(["cluster"], lambda _: cluster)["cluster"]

    def list_consumer_groups(self, **_: Any) -> Future[SimpleNamespace]:
        groups = [
            SimpleNamespace(group_id=name, state=ConsumerGroupState.STABLE)
            for name in self._fake.groups
        ]
        return self._answers(["groups"], lambda _: SimpleNamespace(valid=groups))["groups"]

    def list_offsets(
        self,
        topic_partition_offsets: Mapping[TopicPartition, OffsetSpec],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        **_: Any,
    ) -> dict[TopicPartition, Future[ListOffsetsResultInfo]]:
        committed_only = isolation_level == IsolationLevel.READ_COMMITTED

        def answer(item: TopicPartition) -> ListOffsetsResultInfo:
            log = self._fake.log_of((item.topic, item.partition))
            if log is None:
                known = item.topic in self._fake.topics
                raise _refused(known)
            if (item.topic, item.partition) in self._fake.faults.leaderless:
                raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
            earliest = topic_partition_offsets[item] == OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # the client has no types for it
            end = log.stable_end if committed_only else log.end
            return ListOffsetsResultInfo(log.low if earliest else end, -1, -1)

        self._fake.note("admin", "list_offsets", tuple(map(str, topic_partition_offsets)))
        return self._answers(topic_partition_offsets, answer)

    def describe_configs(
        self, resources: Iterable[ConfigResource], **_: Any
    ) -> dict[ConfigResource, Future[dict[str, ConfigEntry]]]:
        def answer(resource: ConfigResource) -> dict[str, ConfigEntry]:
            if resource.restype == ConfigResource.Type.GROUP:
                name = "consumer.session.timeout.ms"
                return {name: ConfigEntry(name, str(self._fake.session_ms))}
            topic = self._fake.topics.get(resource.name)
            if topic is None:
                raise _refused(known=False)
            entries = {
                "retention.ms": topic.retention_ms,
                "max.message.bytes": topic.max_message_bytes,
                "message.timestamp.type": topic.timestamp_type,
                "cleanup.policy": topic.cleanup_policy,
            }
            return {name: ConfigEntry(name, str(value)) for name, value in entries.items() if value}

        wanted = list(resources)
        self._fake.note("admin", "describe_configs", tuple(one.name for one in wanted))
        return self._answers(wanted, answer)

    def describe_topics(
        self, topics: TopicCollection, **_: Any
    ) -> dict[str, Future[SimpleNamespace]]:
        def answer(name: str) -> SimpleNamespace:
            topic = self._fake.topics.get(name)
            if topic is None:
                raise _refused(known=False)
            may = None if topic.rights is None else [AclOperation[one] for one in topic.rights]
            partitions = [SimpleNamespace(replicas=["broker 1"]) for _ in topic.partitions]
            return SimpleNamespace(
                topic_id=f"{name}-{topic.number}", partitions=partitions, authorized_operations=may
            )

        names = list(topics.topic_names)
        self._fake.note("admin", "describe_topics", tuple(names))
        return self._answers(names, answer)

    def _answers(
        self, questions: Iterable[_Question], answer: Callable[[_Question], Any]
    ) -> dict[_Question, Future[Any]]:
        futures: dict[_Question, Future[Any]] = {question: Future() for question in questions}

        def settle() -> None:
            for question, future in futures.items():
                try:
                    future.set_result(answer(question))
                except KafkaException as error:
                    future.set_exception(error)

        def give_up() -> None:
            for future in futures.values():
                error = KafkaError(KafkaError._TIMED_OUT, "Failed while waiting for response")
                future.set_exception(KafkaException(error))

        after_s = self._fake.faults.admin_answer_s
        if self._fake.faults.brokers_down or after_s is None:
            self._fake.clock.at(_TIMEOUT_S, give_up)
        else:
            self._fake.clock.at(after_s, settle)
            self._fake.clock.run_due()
        return futures


def _refused(known: bool) -> KafkaException:
    if known:
        return KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION, "Local: Unknown partition"))
    code = KafkaError.UNKNOWN_TOPIC_OR_PART
    return KafkaException(KafkaError(code, "Broker: Unknown topic or partition"))
