"""A record on its way to the broker, and its delivery report."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from confluent_kafka import KafkaError, Message

from tests.fake.topic import Headers

Place: TypeAlias = tuple[int, int]
"""Partition and offset."""
Report: TypeAlias = Callable[[KafkaError | None, Message], object]

_FRAMING_BYTES = 70


@dataclass(frozen=True, slots=True, eq=False)
class Outgoing:
    """One record that nothing has been reported of."""

    topic: str
    partition: int
    value: bytes | None
    key: bytes | None
    headers: Headers
    timestamp_ms: int
    report: Report | None

    @property
    def size_bytes(self) -> int:
        headers = sum(len(name.encode()) + len(value or b"") for name, value in self.headers)
        return len(self.value or b"") + len(self.key or b"") + headers + _FRAMING_BYTES


def as_bytes(content: bytes | str | None) -> bytes | None:
    """A key or a value as it arrives."""
    if content is None or isinstance(content, bytes):
        return content
    if isinstance(content, str):
        return content.encode()
    raise TypeError(f"a bytes-like object is required, not '{type(content).__name__}'")


def sent_headers(headers: Headers | None) -> Headers:
    """As they arrive; refusals as confluent-kafka 2.16.1 has them (measured)."""
    sent: Headers = []
    for pair in headers or []:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError("Headers are expected to be a list of (key, value) tuples")
        name, value = pair
        if value is not None and not isinstance(value, bytes | str):
            raise TypeError(
                "expected header value to be None, binary, or unicode string, "
                f"not {type(value).__name__}"
            )
        text = name if isinstance(name, str) else str(name)
        if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise AssertionError(f"librdkafka ends the process here: a header named {text!a}")
        sent.append((text.partition("\0")[0], as_bytes(value)))
    return sent


def reported(outgoing: Outgoing, error: KafkaError | None, place: Place | None) -> Message:
    """As the delivery report shows it: without headers, and without a place where it has none."""
    where: dict[str, Any] = {}
    if place is not None:
        where = {
            "partition": place[0],
            "offset": place[1],
            "timestamp": (1, outgoing.timestamp_ms),
        }
    return Message(
        topic=outgoing.topic, key=outgoing.key, value=outgoing.value, error=error, **where
    )
