"""The two lines of a group, and the retry topics between them."""

import itertools
import time
from collections.abc import Iterator, Sequence

from benchmarks.contestants import Config, discard_logs
from benchmarks.letters import ERROR
from benchmarks.topics import PARTITIONS, VALUE_BYTES
from linear_retry import DeadLetters, LinearConsumer, RetryTopics, Strategy
from linear_retry.records.dead_letter import FailureInfo, to_dead_letter
from linear_retry.records.lineage import Hop
from linear_retry.records.record import Record
from tests.kafka_operations import Record as Produced
from tests.real_kafka import RealKafka

_numbers = itertools.count(1)


def new_retry_topics(kafka: RealKafka, delays_s: Sequence[float]) -> RetryTopics:
    """Retry topics that nobody has used, made as `linear-retry topics create` does."""
    retries = RetryTopics(f"retry-{next(_numbers)}", strategy=Strategy(delays_s), limit=None)
    for topic in retries.topics:
        kafka.create_topic(topic, PARTITIONS, {"message.timestamp.type": "LogAppendTime"})
    return retries


def new_letters_topic(kafka: RealKafka) -> str:
    topic = f"retry-letters-{next(_numbers)}"
    kafka.create_topic(topic, PARTITIONS)
    return topic


def live_line(
    config: Config, topic: str, retries: RetryTopics, letters: str, *, transactional: bool = False
) -> LinearConsumer:
    """Sends what fails with `OSError` to the retry topics, at once."""
    discard_logs()
    return LinearConsumer(
        config,
        [topic],
        strategy=Strategy([]),
        transient=OSError,
        dead_letters=_dead_letters(letters, transactional=transactional),
        on_exhausted=retries,
    )


def retry_line(config: Config, retries: RetryTopics, letters: str) -> LinearConsumer:
    """Reads the retry topics."""
    discard_logs()
    return LinearConsumer(
        config,
        retries,
        strategy=Strategy([]),
        transient=OSError,
        dead_letters=_dead_letters(letters, transactional=False),
    )


def fill(kafka: RealKafka, retries: RetryTopics, topic: str, group_id: str, count: int) -> None:
    """Writes to a retry topic what the live line of the group would have sent there."""
    kafka.produce(topic, retried_records(retries, topic, group_id, count))


def retried_records(
    retries: RetryTopics, topic: str, group_id: str, count: int
) -> Iterator[Produced]:
    """Their places, values, and headers: those of a message with its first failure."""
    delay_ms, now_ms, label = retries.delay_ms(topic) or 0, _now_ms(), retries.strategy.label
    step = retries.strategy.delays_ms.index(delay_ms) + 1
    failure = FailureInfo(
        group_id,
        "transient",
        1,
        now_ms,
        now_ms,
        label,
        ERROR,
        Hop(topic, step, label, now_ms + delay_ms),
    )
    for number in range(count):
        partition, offset = number % PARTITIONS, number // PARTITIONS
        record = Record("orders", partition, offset, now_ms, None, b"x" * VALUE_BYTES, ())
        yield partition, None, record.value, to_dead_letter(record, failure).headers()


def _dead_letters(topic: str, *, transactional: bool) -> DeadLetters:
    return DeadLetters(topic, {"log_level": 0}, transactional=transactional, limit=None)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
