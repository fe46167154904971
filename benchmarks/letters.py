"""Which dead letters are there to read?"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from benchmarks.topics import PARTITIONS
from linear_retry.dead_letter import Death, Record, dead_letter
from linear_retry.error_text import ErrorText
from linear_retry.header_text import Header
from tests.real_kafka import RealKafka

_FIRST_MS = 1_795_253_536_810
_FRAME = '  File "/app/billing/payments.py", line 42, in charge\n    client.post(url, json=order)\n'
_ERROR = ErrorText(
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


def _letters(count: int, origin: str) -> Iterator[tuple[int, bytes, bytes, tuple[Header, ...]]]:
    for partition, offset in ((n % PARTITIONS, n // PARTITIONS) for n in range(count)):
        at_ms = _FIRST_MS + offset
        key, value = b"customer-%d" % (offset % 1000), b'{"order": %d}' % offset
        dead = Record(
            origin,
            partition,
            offset,
            at_ms,
            key,
            value.ljust(100),
            (("trace-id", b"%032x" % offset),),
        )
        death = Death(
            "billing", "exhausted", 5, at_ms, at_ms + 9000, "short-outage@012345678abc", _ERROR
        )
        letter = dead_letter(dead, death)
        yield partition, key, dead.value or b"", tuple(letter.headers())
