"""The headers of other systems' dead letters: a row in the table for each system."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from linear_retry.records.text import whole_number
from linear_retry.scope import Place

Contents: TypeAlias = Mapping[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Encoding:
    """The encoding of a number in a header. `decode` returns None for anything else.

    `size_bytes` is that of a big-endian integer, None for digits.
    """

    rule: str
    decode: Callable[[bytes], int | None]
    size_bytes: int | None = None


def _big_endian(size_bytes: int) -> Encoding:
    def decode(content: bytes) -> int | None:
        return int.from_bytes(content, signed=True) if len(content) == size_bytes else None

    return Encoding(f"a big-endian integer of {size_bytes} bytes", decode, size_bytes)


INT32 = _big_endian(4)
INT64 = _big_endian(8)
DIGITS = Encoding("a whole number in decimal digits", whole_number)


# Not a frozen dataclass, for the same reason as `Letter`.
class Origin(NamedTuple):
    """The place where the message first failed for good. None: unknown; -1: no timestamp."""

    topic: str
    partition: int | None
    offset: int | None
    timestamp_ms: int = -1

    def __str__(self) -> str:
        if self.partition is not None and self.offset is not None:
            return str(Place(self.topic, self.partition, self.offset))
        partition = "" if self.partition is None else f"[{self.partition}]"
        return f"{self.topic}{partition}{'' if self.offset is None else f'@{self.offset}'}"


@dataclass(frozen=True, slots=True)
class ForeignFormat:
    """The headers of one system, whose names begin with `prefixes`: a replay leaves them out.

    `topic` is a header that all its letters have, and no others. If a field has several names, the
    first that is present counts. `group_id` is the name of a header, and the text before the
    consumer group in its value. `has_message`: whether each letter
    has the message's key and value.
    """

    name: str
    prefixes: tuple[str, ...]
    topic: str
    partition: tuple[str, Encoding]
    offset: tuple[str, Encoding]
    timestamp_ms: tuple[str, Encoding] | None = None
    group_id: tuple[str, str] | None = None
    reason: tuple[str, ...] = ()
    exception_type: tuple[str, ...] = ()
    exception_message: tuple[str, ...] = ()
    exception_stack: tuple[str, ...] = ()
    has_message: bool = True

    def read(self, contents: Contents) -> dict[str, Any]:
        """Reads fields of `Letter` from `contents`, the headers by name. Never raises."""
        reader = _Reader(contents)
        group = None if self.group_id is None else reader.text(self.group_id[0])
        return {
            "origin": self._origin(reader),
            "group_id": None
            if group is None or self.group_id is None
            else self.group_id[1] + group,
            "reason": reader.text(*self.reason),
            "exception_type": reader.text(*self.exception_type),
            "exception_message": reader.text(*self.exception_message),
            "exception_stack": reader.text(*self.exception_stack),
            "problem": "; ".join(reader.problems) or None,
        }

    def _origin(self, reader: _Reader) -> Origin | None:
        topic = reader.text(self.topic)
        partition, offset = reader.number(*self.partition), reader.number(*self.offset)
        at_ms = None if self.timestamp_ms is None else reader.number(*self.timestamp_ms)
        if not topic:
            reader.problems.append(f"{self.topic} is missing: its origin is unknown")
            return None
        return Origin(topic, partition, offset, -1 if at_ms is None else at_ms)


SPRING_RETRIES = "retry_topic-"
"""How the headers begin by which Spring's retry topics count attempts: a message that is sent back
with them has only the last one left."""

FOREIGN: tuple[ForeignFormat, ...] = (
    # Spring Kafka: KafkaHeaders.DLT_*, written by DeadLetterPublishingRecoverer. The exception is
    # nearly always its own ListenerExecutionFailedException, so the cause (since 2.8) comes first.
    ForeignFormat(
        name="spring-kafka",
        prefixes=("kafka_dlt-", SPRING_RETRIES),
        topic="kafka_dlt-original-topic",
        partition=("kafka_dlt-original-partition", INT32),
        offset=("kafka_dlt-original-offset", INT64),
        timestamp_ms=("kafka_dlt-original-timestamp", INT64),
        group_id=("kafka_dlt-original-consumer-group", ""),
        exception_type=(
            "kafka_dlt-exception-cause-fqcn",
            "kafka_dlt-exception-fqcn",
            "kafka_dlt-key-exception-fqcn",
        ),
        exception_message=("kafka_dlt-exception-message", "kafka_dlt-key-exception-message"),
        exception_stack=("kafka_dlt-exception-stacktrace", "kafka_dlt-key-exception-stacktrace"),
    ),
    # Kafka Connect (KIP-298): DeadLetterQueueReporter, with
    # errors.deadletterqueue.context.headers.enable=true. A sink's group is connect-NAME.
    ForeignFormat(
        name="kafka-connect",
        prefixes=("__connect.errors.",),
        topic="__connect.errors.topic",
        partition=("__connect.errors.partition", DIGITS),
        offset=("__connect.errors.offset", DIGITS),
        group_id=("__connect.errors.connector.name", "connect-"),
        reason=("__connect.errors.stage",),
        exception_type=("__connect.errors.exception.class.name",),
        exception_message=("__connect.errors.exception.message",),
        exception_stack=("__connect.errors.exception.stacktrace",),
    ),
    # Share groups (KIP-1191). Unless errors.deadletterqueue.copy.record.enable is set, the letter
    # says only where the message is: sent as it lies, it would be a tombstone.
    ForeignFormat(
        name="kafka-share-group",
        prefixes=("__dlq.errors.",),
        topic="__dlq.errors.topic",
        partition=("__dlq.errors.partition", DIGITS),
        offset=("__dlq.errors.offset", DIGITS),
        group_id=("__dlq.errors.group", ""),
        exception_message=("__dlq.errors.message",),
        has_message=False,
    ),
)


@dataclass(slots=True)
class _Reader:
    contents: Contents
    problems: list[str] = field(default_factory=list)

    def text(self, *names: str) -> str | None:
        """Returns the first of these that is present. Java's `getBytes` always yields UTF-8."""
        for name in names:
            content = self.contents.get(name)
            if content is not None:
                return content.decode("utf-8", "replace")
        return None

    def number(self, name: str, encoding: Encoding) -> int | None:
        content = self.contents.get(name)
        if content is None:
            return None
        number = encoding.decode(content)
        if number is None:
            self.problems.append(f"{name} is {content[:40]!r}, must be {encoding.rule}")
        return number
