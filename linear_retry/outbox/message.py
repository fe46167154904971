"""The value of a message, as it is stored and as callbacks get it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import index
from typing import Any, TypeAlias

from linear_retry.errors import UsageError
from linear_retry.kafka.producers.direct import Report, Unsent
from linear_retry.records.retry_headers import MESSAGE_ID
from linear_retry.records.text import Header
from linear_retry.store.records import NewMessage, slot_of

Headers: TypeAlias = Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]


@dataclass(frozen=True, slots=True)
class OutboxMessage:
    """A message of an outbox, with what is known of its way to Kafka."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    """The caller's, and `retry-message-id` as the last."""
    partition: int | None
    """The caller's choice, or where it was written; None: chosen by the key, not yet known."""
    timestamp_ms: int | None
    """The caller's; None: the time of sending."""
    offset: int | None = None
    """Its place in Kafka; None while it is only stored, and if it is neither."""

    @property
    def message_id(self) -> str:
        """Its `retry-message-id`, by which readers recognise a message that was sent twice."""
        return (self.headers[-1][1] or b"").decode()

    def due(self, due_ms: int) -> NewMessage:
        """Returns what the store keeps, to be sent at `due_ms`."""
        return NewMessage(
            service="outbox",
            destination=self.topic,
            slot=slot_of(self.key, self.partition),
            due_ms=due_ms,
            key=self.key,
            value=self.value,
            headers=self.headers,
            timestamp_ms=self.timestamp_ms,
            retry_id=self.message_id,
        )


Recover: TypeAlias = Callable[[OutboxMessage, Exception], object]
"""Called with a message that could be neither sent nor stored, and why it was not stored."""


def message_of(unsent: Unsent) -> OutboxMessage:
    """Returns the message as it is sent."""
    topic, value, key, partition, timestamp_ms, headers, given_id, *_ = unsent
    return OutboxMessage(
        topic,
        content(key, "key"),
        content(value, "value"),
        (
            *((name, content(each, f"header {name!r}")) for name, each in headers),
            (MESSAGE_ID, given_id),
        ),
        None if partition < 0 else partition,
        timestamp_ms or None,
    )


def reported(report: Report) -> OutboxMessage:
    """Returns the message of a report, with its place if it was delivered."""
    message = message_of(report.unsent)
    if report.offset is None:
        return message
    return replace(message, partition=report.partition, offset=report.offset)


def partition_number(given: int) -> int:
    """Returns a partition as librdkafka has it. Raises `UsageError` for what can be none."""
    return _whole(given, "partition", -1, 2**31 - 1)


def timestamp_number(given: int) -> int:
    """Returns a timestamp in ms as the store has it. Raises `UsageError` for what can be none."""
    return _whole(given, "timestamp", -(2**63), 2**63 - 1)


def header_list(headers: Headers) -> list[tuple[str, bytes | None]]:
    """Returns the caller's headers; raises `UsageError` for names librdkafka breaks at.

    A lone surrogate ends the process (confluent-kafka 2.16.1), and a NUL cuts the name short.
    """
    given = list(headers.items() if isinstance(headers, Mapping) else headers)
    for name, _ in given:
        if not isinstance(name, str) or "\0" in name or not name.isprintable():
            raise UsageError(
                f"header {name!r}: its name must be text of printable characters; correct it"
            )
    return [(name, content(value, f"header {name!r}")) for name, value in given]


AS_IS = frozenset({bytes, str, type(None)})
"""The types of keys and values that stay what they are until they are sent or stored."""


def content(given: Any, what: str) -> bytes | None:
    """Returns a key, value or header as bytes: text, or an object that lends its bytes.

    Asked for before a message is accepted: confluent-kafka takes the bytes of NumPy's and others'
    objects, which change later, or cannot be read again, and those of `numpy.str_` are no UTF-8.
    Raises `UsageError` for another type.
    """
    if given is None or type(given) is bytes:
        return given
    if isinstance(given, str):
        return given.encode()
    try:
        return bytes(memoryview(given))
    except (TypeError, ValueError, BufferError):
        raise UsageError(
            f"{what} is of type {type(given).__name__}, must be bytes, text or None; encode it "
            "first"
        ) from None


def _whole(given: Any, what: str, least: int, most: int) -> int:
    if not hasattr(given, "__index__") or not least <= index(given) <= most:
        raise UsageError(f"{what} is {given!r}, must be a whole number from {least} to {most}")
    return index(given)
