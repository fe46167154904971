"""What tests do to a Kafka cluster besides running the consumer."""

import faulthandler
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stubs export too little
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.patience import PATIENCE_S

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
Record: TypeAlias = tuple[int, bytes | None, bytes | None, Headers]
"""Partition, key, value, headers."""

_T = TypeVar("_T")

_COORDINATOR_S = 3.0
_NOT_YET = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    # The topic's metadata and its leader are distinguished, and either may be first.
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
)
_NO_COORDINATOR_YET = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
_BETWEEN_LOOKS_S = 0.02


def _answered(
    ask: Callable[[], list[TopicPartition] | None],
) -> list[TopicPartition] | None:
    try:
        return ask()
    except KafkaException as error:
        if error.args[0].code() not in _NO_COORDINATOR_YET:
            raise
        return None  # a broker that has just started takes up its groups one by one


def wait_until(
    predicate: Callable[[], _T | None],
    what: str,
    detail: Callable[[], object] | None = None,
    *,
    within_s: float = PATIENCE_S,
) -> _T:
    """Ask `predicate` until its answer is true, and return that; fails saying `what` did not come.

    `detail`, called when the time is over, adds what a person needs to find out why; and where each
    thread is goes to stderr.
    """
    until = time.monotonic() + within_s
    while not (answer := predicate()):
        if time.monotonic() > until:
            more = f"\n{detail()}" if detail else ""
            faulthandler.dump_traceback(2)
            raise AssertionError(f"not within {within_s:g} s: {what}; last: {answer!r}{more}")
        # A look, and no event: brokers, other processes and their files tell nobody of a change.
        time.sleep(_BETWEEN_LOOKS_S)
    return answer


class KafkaOperations:
    """Small synchronous operations on the cluster at `bootstrap`; each raises what went wrong."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def client_settings(self, **more: Any) -> dict[str, Any]:
        """Settings for a client of the test's own: quick to reconnect, nothing on stderr."""
        return {
            "bootstrap.servers": self.bootstrap,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
            **more,
        }

    def create_topic(
        self, topic: str, partitions: int = 1, config: dict[str, str] | None = None
    ) -> None:
        new = NewTopic(topic, partitions, 1, config=config or {})
        self._ask(lambda admin: admin.create_topics([new], operation_timeout=PATIENCE_S))
        wait_until(
            lambda: self._is_led(topic, partitions), f"every partition of {topic} has a leader"
        )

    def delete_topic(self, topic: str) -> None:
        self._ask(lambda admin: admin.delete_topics([topic], operation_timeout=PATIENCE_S))

    def add_partitions(self, topic: str, total: int) -> None:
        """Give the topic `total` partitions, those that it has included."""
        new = NewPartitions(topic, total)
        self._ask(lambda admin: admin.create_partitions([new], operation_timeout=PATIENCE_S))
        wait_until(lambda: self._is_led(topic, total), f"every partition of {topic} has a leader")

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        """What retention does: everything before this offset is gone."""
        place = TopicPartition(topic, partition, before_offset)
        self._ask(lambda admin: admin.delete_records([place]))

    def produce(
        self, topic: str, records: Iterable[Record], timestamp_ms: int = 0
    ) -> list[tuple[int, int]]:
        """Write the records: partition and offset of each, once every one is acknowledged.

        With that time, or if it is 0 the time of now. Raises if one is not.
        """
        # Not idempotent: each new idempotent producer waits half a second for its id. In order all
        # the same, with one request at a time.
        producer = Producer(self.client_settings(**{"linger.ms": 5, "max.in.flight": 1}))
        failed: list[KafkaError] = []
        written: list[tuple[int, int]] = []

        def reported(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failed.append(error)
            else:
                written.append((message.partition() or 0, message.offset() or 0))

        for partition, key, value, headers in records:
            place = {"key": key, "value": value, "headers": list(headers), "partition": partition}
            place["timestamp"] = timestamp_ms
            while not _taken(producer, topic, place, reported):
                producer.poll(0.1)
        left = producer.flush(PATIENCE_S)
        if failed or left:
            raise AssertionError(f"{topic}: {len(failed)} refused ({failed[:1]}), {left} not sent")
        return written

    def read(self, topic: str, isolation_level: str = "read_committed") -> list[Message]:
        """Everything that is in the topic now, by partition and offset."""
        consumer = Consumer(
            self.client_settings(
                **{
                    "group.id": "reads-no-group",
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    "fetch.wait.max.ms": 10,
                    "isolation.level": isolation_level,
                }
            )
        )
        try:
            numbers = _partitions(consumer.list_topics(topic, timeout=PATIENCE_S), topic)
            consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in numbers])
            return _to_the_end(consumer, set(numbers))
        finally:
            consumer.close()

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Partition to the group's committed offset, where there is one."""
        # A consumer that does not join. The admin client's own question ends the process where it
        # is not answered in time (librdkafka #4605).
        keys = {"group.id": group, "isolation.level": "read_uncommitted"}
        consumer = Consumer(self.client_settings(**keys))
        try:
            numbers = _partitions(consumer.list_topics(topic, timeout=PATIENCE_S), topic)
            asked = [TopicPartition(topic, number) for number in numbers]
            places = wait_until(
                lambda: _answered(lambda: consumer.committed(asked, timeout=PATIENCE_S)),
                "the group's coordinator",
            )
        finally:
            consumer.close()
        for place in places:
            if place.error is not None:
                raise KafkaException(place.error)
        return {place.partition: place.offset for place in places if place.offset >= 0}

    def commit(
        self,
        group: str,
        topic: str,
        offsets: Mapping[int, int],
        notes: Mapping[int, str] | None = None,
    ) -> None:
        """Partition to the offset that the group, which has no member, has committed from now on.

        And to the text beside it.

        A coordinator that is still loading its groups is asked again.
        """
        consumer = Consumer(self.client_settings(**{"group.id": group}))
        places = [
            TopicPartition(topic, number, offset, metadata=(notes or {}).get(number, ""))
            for number, offset in offsets.items()
        ]
        try:
            wait_until(
                lambda: _answered(lambda: consumer.commit(offsets=places, asynchronous=False)),
                "the group's coordinator",
            )
        finally:
            consumer.close()

    def end_offsets(
        self, topic: str, isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED
    ) -> dict[int, int]:
        """Partition to the offset after its last message that this isolation level shows."""
        admin = self._admin()
        numbers = _partitions(admin.list_topics(topic, timeout=PATIENCE_S), topic)
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # confluent-kafka left it out
        asked = {TopicPartition(topic, number): latest for number in numbers}
        answers = admin.list_offsets(asked, isolation_level=isolation_level)
        return {
            place.partition: future.result(PATIENCE_S).offset for place, future in answers.items()
        }

    def group_members(self, group: str) -> list[str]:
        """The client ids of the group's members, sorted; none where there is no such group."""
        try:
            described = self._ask_coordinator(_describing(group))
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return []
            raise
        return sorted(member.client_id for member in described.members)

    def group_story(self, group: str) -> str:
        """The state of a group and its members, for a person who has to find out why it waits."""
        try:
            described = self._ask(_describing(group))
        except KafkaException as error:
            return f"group {group}: {error}"
        members = [
            f"{member.client_id} with {len(member.assignment.topic_partitions)} partitions"
            for member in described.members
        ]
        return f"group {group} is {described.state.name}; members: {', '.join(members) or 'none'}"

    def set_session(self, group: str, session_ms: int) -> None:
        """Of a KIP-848 group, where it is the broker's: so long a dead member's partitions wait."""
        setting = {"consumer.session.timeout.ms": str(session_ms)}
        self._set(ResourceType.GROUP, group, setting)

    def set_topic(self, topic: str, settings: dict[str, str]) -> None:
        """Changes these settings of a topic, and no others."""
        self._set(ResourceType.TOPIC, topic, settings)

    def _set(self, kind: ResourceType, name: str, settings: dict[str, str]) -> None:
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in settings.items()
        ]
        resource = ConfigResource(kind, name, incremental_configs=entries)
        self._ask(lambda admin: admin.incremental_alter_configs([resource]))

    def _admin(self) -> AdminClient:
        # For librdkafka it is a producer: what it asks about a topic makes that topic, be it that
        # the question is answered only when somebody has deleted it.
        return AdminClient(self.client_settings(**{"allow.auto.create.topics": False}))

    def _ask(self, question: Callable[[AdminClient], dict[Any, Any]]) -> Any:
        # The client must be kept until the answer is here: collecting it cancels the question.
        admin = self._admin()
        (future,) = question(admin).values()
        return future.result(PATIENCE_S)

    def _is_led(self, topic: str, partitions: int) -> bool:
        try:
            return len(self.end_offsets(topic)) == partitions
        except KafkaException as error:
            if error.args[0].code() in _NOT_YET:
                return False
            raise

    def _ask_coordinator(self, question: Callable[[AdminClient], dict[Any, Any]]) -> Any:
        return wait_until(lambda: self._answer_in_time(question), "the group's coordinator answers")

    def _answer_in_time(self, question: Callable[[AdminClient], dict[Any, Any]]) -> Any:
        try:
            return self._ask(question)
        except KafkaException as error:
            # Right after a broker's start its group coordinator may leave a question unanswered.
            if error.args[0].code() in (KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE):
                return None
            raise


def _describing(group: str) -> Callable[[AdminClient], dict[Any, Any]]:
    return lambda admin: admin.describe_consumer_groups([group], request_timeout=_COORDINATOR_S)


def _partitions(metadata: Any, topic: str) -> list[int]:
    described = metadata.topics[topic]
    if described.error is not None:
        raise KafkaException(described.error)
    return sorted(described.partitions)


def _taken(
    producer: Producer, topic: str, place: dict[str, Any], reported: Callable[..., None]
) -> bool:
    try:
        producer.produce(topic, on_delivery=reported, **place)
    except BufferError:
        return False
    return True


def _to_the_end(consumer: Consumer, unread: set[int]) -> list[Message]:
    messages: list[Message] = []
    until = time.monotonic() + PATIENCE_S
    while unread:
        if time.monotonic() > until:
            raise AssertionError(f"partitions {sorted(unread)} were not read to their end")
        for message in consumer.consume(1000, 0.02):
            error = message.error()
            if error is None:
                messages.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                unread.discard(message.partition() or 0)
            else:
                raise KafkaException(error)
    return sorted(messages, key=lambda message: (message.partition(), message.offset()))
