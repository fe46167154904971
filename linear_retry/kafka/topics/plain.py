"""How are topics made, filled, read whole and removed, with none of our promises in between?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # exported by import only

from linear_retry.errors import BrokerError
from linear_retry.records.record import Record

_PATIENCE_S = 10.0
_SLICE_S = 0.5  # Ctrl-C is heard between two calls into librdkafka, not inside one


@dataclass(frozen=True, slots=True)
class PlainMessage:
    """A message as it lies in its topic; of headers of one name, the last."""

    partition: int
    offset: int
    value: bytes | None
    headers: Mapping[str, bytes | None]


@contextmanager
def borrowed_topics(
    bootstrap: str,
    partitions: Mapping[str, int],
    *,
    groups: Sequence[str],
    complain: Callable[[str], object],
    config: Mapping[str, str] | None = None,
    within_s: float = _PATIENCE_S,
) -> Iterator[None]:
    """Topics, by name and number of partitions, that are there inside the `with` and gone after.

    The consumer groups go with them; `config` is of each topic. Raises `BrokerError` where no
    broker answers `within_s`, or one refuses a topic. Removing is best effort: `complain` is told
    what stays.
    """
    admin = AdminClient(_quiet(bootstrap))
    _reach(admin, bootstrap, within_s)
    try:
        _create(admin, bootstrap, partitions, config or {})
        yield
    finally:
        topics = admin.delete_topics(list(partitions), request_timeout=_PATIENCE_S)
        left = admin.delete_consumer_groups(list(groups), request_timeout=_PATIENCE_S)
        for kind, answers in (("topic", topics), ("group", left)):
            for text in _left_behind(kind, answers):
                complain(text)


def produce(
    bootstrap: str,
    topic: str,
    messages: Iterable[tuple[int, bytes, bytes]],
    *,
    largest_batch: int = 10_000,
) -> tuple[int, ...]:
    """Write (partition, key, value), in order; return the offset of each, once all are there.

    A consumer is given whole batches: with small ones the partitions come in turn. Raises
    `BrokerError` where a message is not acknowledged within 10 s.
    """
    offsets: dict[int, int] = {}
    errors: list[KafkaError] = []

    def report_of(number: int) -> Any:
        def report(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                errors.append(error)
            else:
                offsets[number] = message.offset() or 0

        return report

    producer = Producer(
        _quiet(bootstrap) | {"enable.idempotence": True, "batch.num.messages": largest_batch}
    )
    count = 0
    for partition, key, value in messages:
        producer.produce(topic, value, key, partition, on_delivery=report_of(count))
        count += 1
    deadline_s = time.monotonic() + _PATIENCE_S
    while producer.flush(_SLICE_S) and time.monotonic() < deadline_s:
        pass
    if len(offsets) < count:
        reason = errors[0].str() if errors else f"no answer within {_PATIENCE_S:g} s"
        raise BrokerError(f"{bootstrap}: cannot write to topic {topic!r}: {reason}")
    return tuple(offsets[number] for number in range(count))


def write(bootstrap: str, records: Iterable[Record]) -> int:
    """Write each record to its topic, at its time, in order; how many, once all are there.

    A negative partition is the one of its key. Raises `BrokerError` where one is not acknowledged
    within 10 s of the last.
    """
    errors: list[KafkaError] = []

    def report(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            errors.append(error)

    keys = {"enable.idempotence": True, "partitioner": "murmur2_random"}
    producer, count = Producer(_quiet(bootstrap) | keys), 0
    for record in records:
        _send(producer, record, report)
        count += 1
    left = producer.flush(_PATIENCE_S)
    if left or errors:
        reason = errors[0].str() if errors else f"no answer within {_PATIENCE_S:g} s"
        raise BrokerError(f"{bootstrap}: {left + len(errors)} records are not written: {reason}")
    return count


def _send(producer: Producer, record: Record, report: Any) -> None:
    while True:
        try:
            producer.produce(
                record.topic,
                record.value,
                record.key,
                record.partition,
                on_delivery=report,
                timestamp=record.timestamp_ms,
                headers=list(record.headers),
            )
        except BufferError:
            producer.poll(_SLICE_S)  # the queue is full
        else:
            return


def read_all(bootstrap: str, topic: str, partitions: int) -> tuple[PlainMessage, ...]:
    """What is in the topic now, each partition in order, read without a group.

    Raises `BrokerError` where it cannot be read to its end within 10 s.
    """
    consumer = Consumer(
        _quiet(bootstrap)
        | {
            "group.id": "reads-without-one",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        return tuple(_until_ends(consumer, bootstrap, topic, partitions))
    finally:
        consumer.close()


def _until_ends(
    consumer: Consumer, bootstrap: str, topic: str, partitions: int
) -> Iterator[PlainMessage]:
    waiting = set(range(partitions))
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in waiting])
    deadline_s = time.monotonic() + _PATIENCE_S
    while waiting:
        message = consumer.poll(_SLICE_S)
        if message is None:
            if time.monotonic() > deadline_s:
                raise BrokerError(f"{bootstrap}: cannot read {topic!r} within {_PATIENCE_S:g} s")
            continue
        error = message.error()
        if error is None:
            yield PlainMessage(
                message.partition() or 0,
                message.offset() or 0,
                message.value(),
                dict(message.headers() or ()),  # type: ignore[arg-type]  # pairs; typed as either form
            )
        elif error.code() == KafkaError._PARTITION_EOF:
            waiting.discard(message.partition() or 0)
        elif error.fatal() or not error.retriable():
            raise BrokerError(f"{bootstrap}: cannot read {topic!r}: {error.str()}")


def _reach(admin: Any, bootstrap: str, within_s: float) -> None:
    deadline_s = time.monotonic() + within_s
    while True:
        try:
            admin.list_topics(timeout=_SLICE_S)
            return
        except KafkaException as error:
            if time.monotonic() > deadline_s:
                raise BrokerError(
                    f"{bootstrap}: no broker answers within {within_s:g} s ({_text(error)}); "
                    "check the address, and that it is reachable from here"
                ) from error


def _create(
    admin: Any, bootstrap: str, partitions: Mapping[str, int], config: Mapping[str, str]
) -> None:
    wanted = [NewTopic(name, n, config=dict(config)) for name, n in partitions.items()]
    for name, answer in admin.create_topics(wanted, request_timeout=_PATIENCE_S).items():
        try:
            answer.result()
        except KafkaException as error:
            raise BrokerError(
                f"{bootstrap}: cannot create topic {name!r}: {_text(error)}"
            ) from error


def _left_behind(kind: str, answers: Mapping[str, Any]) -> Iterator[str]:
    for name, answer in answers.items():
        error = answer.exception()
        if error is not None:
            yield f"the {kind} {name!r} stays behind: {_text(error)}"


def _text(error: BaseException) -> str:
    if isinstance(error, KafkaException) and isinstance(error.args[0], KafkaError):
        return error.args[0].str()
    return str(error)


def _quiet(bootstrap: str) -> dict[str, Any]:
    # What goes wrong is raised: librdkafka's own lines on stderr would stand in the picture.
    return {"bootstrap.servers": bootstrap, "log_level": 0}
