"""What is in a topic of a test's, and how far has a group committed it?"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from linear_retry.errors import BrokerError
from linear_retry.scope import Partition

_ANSWER_S = 20.0
_ONE_ANSWER_S = 3.0


def produce(
    bootstrap: str, topic: str, values: Iterable[bytes | str | None], partition: int
) -> None:
    """Write them in this order. Raises `BrokerError` where one is not acknowledged."""
    # Not idempotent: each new idempotent producer waits half a second for its id. In order all the
    # same, with one request at a time.
    producer = Producer(_quiet(bootstrap, **{"linger.ms": 0, "max.in.flight": 1}))
    refused: list[KafkaError] = []

    def reported(error: KafkaError | None, _: object) -> None:
        if error is not None:
            refused.append(error)

    for value in values:
        while not _taken(producer, topic, value, partition, reported):
            producer.poll(0.1)
    left = producer.flush(_ANSWER_S)
    if refused or left:
        why = refused[0].str() if refused else f"{left} not acknowledged within {_ANSWER_S:g} s"
        raise BrokerError(f"embedded broker: cannot write to {topic}[{partition}]: {why}")


def visible_offsets(bootstrap: str, topic: str) -> dict[Partition, list[int]]:
    """The offsets that a reader finds in each partition now. Raises `BrokerError`."""
    settings = {
        "group.id": "reads-no-group",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 10,
    }
    consumer = Consumer(_quiet(bootstrap, **settings))
    try:
        metadata = consumer.list_topics(topic, timeout=_ANSWER_S).topics[topic]
        if metadata.error is not None:
            raise KafkaException(metadata.error)
        found: dict[Partition, list[int]] = {(topic, number): [] for number in metadata.partitions}
        consumer.assign([TopicPartition(*partition, OFFSET_BEGINNING) for partition in found])
        _read_to_the_end(consumer, found)
    except KafkaException as error:
        raise BrokerError(f"embedded broker: cannot read {topic}: {_text_of(error)}") from error
    finally:
        consumer.close()
    return found


def committed_offsets(bootstrap: str, group_id: str, topic: str) -> dict[Partition, int]:
    """The group's committed offset of each partition that has one. Raises `BrokerError`."""
    # Asked by an admin client: a consumer of the group's own would be one of its members. Partition
    # by partition: a mock broker that is asked for all says nothing.
    admin = AdminClient(_quiet(bootstrap))
    until_s = time.monotonic() + _ANSWER_S
    while True:
        try:
            numbers = admin.list_topics(topic, timeout=_ONE_ANSWER_S).topics[topic].partitions
            asked = [TopicPartition(topic, number) for number in numbers]
            return _answer(admin, ConsumerGroupTopicPartitions(group_id, asked))
        except (KafkaException, TimeoutError) as error:
            # A coordinator that has just moved may leave a question unanswered.
            if time.monotonic() > until_s:
                raise BrokerError(
                    f"embedded broker: cannot ask what {group_id} has committed: {_text_of(error)}"
                ) from error


def _answer(admin: AdminClient, question: ConsumerGroupTopicPartitions) -> dict[Partition, int]:
    answers = admin.list_consumer_group_offsets([question], request_timeout=_ONE_ANSWER_S)
    (future,) = answers.values()
    places = future.result(_ONE_ANSWER_S + 1).topic_partitions or []
    for place in places:
        if place.error is not None:
            raise KafkaException(place.error)
    return {(place.topic, place.partition): place.offset for place in places if place.offset >= 0}


def _quiet(bootstrap: str, **more: Any) -> dict[str, Any]:
    back = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200}
    return {"bootstrap.servers": bootstrap, "log_level": 0, **back, **more}


def _taken(
    producer: Producer, topic: str, value: bytes | str | None, partition: int, reported: Any
) -> bool:
    try:
        producer.produce(topic, value, partition=partition, on_delivery=reported)
    except BufferError:
        return False
    return True


def _read_to_the_end(consumer: Consumer, found: dict[Partition, list[int]]) -> None:
    unread = set(found)
    until_s = time.monotonic() + _ANSWER_S
    while unread:
        if time.monotonic() > until_s:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        for message in consumer.consume(1000, 0.02):
            error = message.error()
            partition = message.topic() or "", message.partition() or 0
            if error is None:
                found[partition].append(message.offset() or 0)
            elif error.code() == KafkaError._PARTITION_EOF:
                unread.discard(partition)
            elif not error.retriable():
                raise KafkaException(error)


def _text_of(error: BaseException) -> str:
    first = error.args[0] if error.args else error
    return first.str() if isinstance(first, KafkaError) else repr(first)
