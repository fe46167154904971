"""Produces the dead letters that the benchmarks read."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.topics import PARTITIONS
from linear_retry.records.dead_letter import FailureInfo, to_dead_letter
from linear_retry.records.record import Record
from linear_retry.records.text import ErrorText, Header
from tests.real_kafka import RealKafka

FIRST_MS = 1_795_253_536_810
_FRAME = '  File "/app/billing/payments.py", line 42, in charge\n    client.post(url, json=order)\n'
ERROR = ErrorText(
    "requests.exceptions.ConnectionError",
    "connection refused: payments:8080",
    "Traceback (most recent call last):\n" + 8 * _FRAME,
)

_numbers = itertools.count(1)


def topic_of_letters(kafka: RealKafka, letters: int, origin: str = "orders") -> str:
    """A new topic of `letters` dead letters of `origin`, of 100 bytes and 1.5 KB of headers each.

    Each lies in the partition that its message came from, in the order of the deaths.
    """
    topic = f"letters-{next(_numbers)}.dlq"
    kafka.create_topic(topic, PARTITIONS)
    kafka.produce(topic, _letters(letters, origin))
    return topic


def _letters(count: int, origin: str) -> Iterator[tuple[int, bytes, bytes, list[Header]]]:
    """Written once for each partition, and then only what differs: so that the topic fills fast."""
    patterns = [_pattern(origin, partition) for partition in range(PARTITIONS)]
    for offset, partition in ((n // PARTITIONS, n % PARTITIONS) for n in range(count)):
        at_ms = FIRST_MS + offset
        differing = {
            "trace-id": b"%032x" % offset,
            "retry-id": f"billing/{origin}/{partition}/{offset}/{at_ms}".encode(),
            "retry-original-offset": b"%d" % offset,
            "retry-original-timestamp-ms": b"%d" % at_ms,
        }
        headers = [(name, differing.get(name, content)) for name, content in patterns[partition]]
        yield (
            partition,
            b"customer-%d" % (offset % 1000),
            (b'{"order": %d}' % offset).ljust(100),
            headers,
        )


def headers_of_letter(origin: str, partition: int, offset: int, message: str) -> list[Header]:
    """The headers of one letter with an error of its own."""
    return _pattern(origin, partition, offset, replace(ERROR, message=message))


def _pattern(
    origin: str, partition: int, offset: int = 0, error: ErrorText = ERROR
) -> list[Header]:
    dead = Record(origin, partition, offset, FIRST_MS, None, None, (("trace-id", b""),))
    failure = FailureInfo(
        "billing", "exhausted", 5, FIRST_MS, FIRST_MS + 9000, "short@0123456789ab", error
    )
    return to_dead_letter(dead, failure).headers()
