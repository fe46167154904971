"""Describes topics, creates them and deletes their records."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AclOperation, AdminClient, ConfigResource, NewTopic, OffsetSpec  # type: ignore[attr-defined]  # exported by import only

from linear_retry.errors import BrokerError
from linear_retry.kafka.consumer.settings import connection, servers_of
from linear_retry.kafka.quiet import QUIET, make_client
from linear_retry.kafka.topics.standalone_consumer import (
    ANSWER_TIMEOUT_S,
    MISSING,
    NO_ANSWER,
    NO_PERMISSION,
    refusal,
)
from linear_retry.records.topics.description import NeededTopic, TopicDescription
from linear_retry.scope import Partition

_LOOK_AGAIN_S = 0.05
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id of topics of brokers before Kafka 2.8."""
_NO_IDS = (KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE)


class Topics:
    """Describes and changes topics. Waits for each answer, `timeout_s` at most.

    All methods raise `BrokerError` without an answer in time, or if it is a refusal.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        timeout_s: float = ANSWER_TIMEOUT_S,
        admin: Callable[..., Any] = AdminClient,
    ) -> None:
        self._where = servers_of(config)
        self._config = QUIET | connection(config)
        self._timeout_s = timeout_s
        self._make = admin
        self._admin: Any = None

    def describe(self, names: Iterable[str]) -> dict[str, TopicDescription | None]:
        """Describes each topic; None if it does not exist. Creates none."""
        asked = list(dict.fromkeys(names))
        if not asked:
            return {}
        described = self._handle().describe_topics(
            TopicCollection(asked),
            include_authorized_operations=True,
            request_timeout=self._timeout_s,
        )
        there = {
            name: found
            for name in asked
            if (found := self._answer(described[name], f"topic {name!r}", accepted=MISSING))
        }
        configs = self._configs(list(there))
        return {
            name: _description(there[name], configs[name]) if name in there else None
            for name in asked
        }

    def partitions(self, names: Iterable[str]) -> list[Partition]:
        """Returns every partition of these topics; of one that does not exist, none."""
        asked = list(dict.fromkeys(names))
        if not asked:
            return []
        described = self._handle().describe_topics(
            TopicCollection(asked), request_timeout=self._timeout_s
        )
        there = (self._answer(described[n], f"topic {n!r}", accepted=MISSING) for n in asked)
        return [(each.name, one.id) for each in there if each for one in each.partitions]

    def id_of(self, name: str) -> str | None:
        """Returns the id that no other topic has, of the same name neither; None: it has none."""
        asked = TopicCollection([name])
        described = self._handle().describe_topics(asked, request_timeout=self._timeout_s)
        found = self._answer(described[name], f"topic {name!r}", accepted=_NO_IDS)
        return None if found is None or str(found.topic_id) == NO_ID else str(found.topic_id)

    def create(self, topic: NeededTopic) -> bool:
        """Creates the topic. False: it exists by now, and is left as it is.

        Waits until a broker describes it: one that has not heard of it yet calls it missing.
        """
        settings = dict(topic.settings)
        new = NewTopic(topic.name, topic.partitions, topic.replication, config=settings)
        made = self._handle().create_topics([new], request_timeout=self._timeout_s)[topic.name]
        what = f"creating topic {topic.name!r}"
        self._answer(made, what, "CREATE", accepted=[KafkaError.TOPIC_ALREADY_EXISTS])
        is_new = made.exception() is None
        give_up_at_s = time.monotonic() + self._timeout_s
        while is_new and not self._is_there(topic.name) and time.monotonic() < give_up_at_s:
            time.sleep(_LOOK_AGAIN_S)
        return is_new

    def _is_there(self, name: str) -> bool:
        asked = self._handle().describe_topics(
            TopicCollection([name]), request_timeout=self._timeout_s
        )
        return self._answer(asked[name], f"topic {name!r}", accepted=MISSING) is not None

    def delete_before(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Deletes everything before an offset in each partition, and waits until all is done."""
        places = [TopicPartition(topic, *place) for place in offsets.items()]
        if not places:
            return
        answers = self._handle().delete_records(places, request_timeout=self._timeout_s)
        for place, answer in answers.items():
            what = f"deleting {topic}[{place.partition}] before {place.offset}"
            self._answer(answer, f"{what}, for which cleanup.policy=delete is needed,", "DELETE")

    def ends(self, partitions: Iterable[Partition], *, committed: bool) -> dict[Partition, int]:
        """Returns each end offset; with `committed`, the end before any open transaction."""
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        asked = {TopicPartition(*each): OffsetSpec.latest() for each in partitions}  # type: ignore[no-untyped-call]  # the client has no types for it
        answers = self._handle().list_offsets(
            asked, isolation_level=level, request_timeout=self._timeout_s
        )
        return {
            (place.topic, place.partition): self._answer(answer, f"topic {place.topic!r}").offset
            for place, answer in answers.items()
        }

    def _configs(self, names: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """Returns the configuration of each; empty if we lack the permission."""
        if not names:
            return {}
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
        answers = self._handle().describe_configs(resources, request_timeout=self._timeout_s)
        return {
            name: self._answer(
                answers[resource], f"the settings of topic {name!r}", accepted=NO_PERMISSION
            )
            or {}
            for name, resource in zip(names, resources, strict=True)
        }

    def _answer(
        self,
        answer: Future[Any],
        what: str,
        rights: str = "DESCRIBE",
        accepted: Collection[int] = (),
    ) -> Any:
        """Returns the brokers' answer; None for an `accepted` error."""
        try:
            return answer.result(self._timeout_s + 1)
        except TimeoutError:
            self._admin = None
            raise BrokerError(
                f"{self._where}: no answer within {self._timeout_s:g} s; check the address, the "
                "security settings, and that it is reachable from here"
            ) from None
        except KafkaException as error:
            if error.args[0].code() in accepted:
                return None
            if error.args[0].code() in NO_ANSWER:
                # It may have lost all brokers for good, and wait for a controller each time.
                self._admin = None
            raise refusal(self._where, what, error.args[0], rights) from error

    def _handle(self) -> Any:
        if self._admin is None:
            self._admin = make_client(self._make, self._config)
        return self._admin


def _description(described: Any, config: Mapping[str, Any]) -> TopicDescription:
    policy = _of(config, "cleanup.policy")
    is_deleted = None if policy is None else "delete" in policy
    retention_ms = _number(config, "retention.ms")
    retention_bytes = _number(config, "retention.bytes")
    stamp = _of(config, "message.timestamp.type")
    operations = described.authorized_operations
    return TopicDescription(
        id=str(described.topic_id),
        partitions=len(described.partitions),
        replication=min((len(each.replicas) for each in described.partitions), default=1),
        may_write=None if operations is None else AclOperation.WRITE in operations,
        max_message_bytes=_number(config, "max.message.bytes"),
        retention_ms=retention_ms if is_deleted else None,
        is_compacted=None if policy is None else "compact" in policy,
        is_deleted=is_deleted,
        stamps_by_broker=None if stamp is None else stamp == "LogAppendTime",
        min_insync_replicas=_number(config, "min.insync.replicas"),
        retention_bytes=retention_bytes if is_deleted else None,
    )


def _of(config: Mapping[str, Any], key: str) -> str | None:
    entry = config.get(key)
    return None if entry is None or entry.value is None else str(entry.value)


def _number(config: Mapping[str, Any], key: str) -> int | None:
    """Returns a setting as a number; None if missing, or for -1, which means no limit."""
    text = _of(config, key)
    return None if text is None or int(text) < 0 else int(text)
