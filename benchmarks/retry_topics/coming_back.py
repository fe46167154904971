"""Measures how late messages come back, and how fast when many are due at once."""

import time
from multiprocessing.synchronize import Event as Ready

from confluent_kafka import Message, Producer

from benchmarks.child import CONTEXT, Child, in_child
from benchmarks.contestants import Config
from benchmarks.figures import Figure, Result, Target, percentile
from benchmarks.retry_topics.lines import (
    fill,
    new_letters_topic,
    new_retry_topics,
    retried_records,
    retry_line,
)
from benchmarks.scale import Scale
from benchmarks.topics import config_of_new_group
from linear_retry import RetryTopics
from tests.real_kafka import RealKafka

_PER_S = 200
_DELAY_S = 1.0
_WARM_UP = 10
_READY_LIMIT_S = 60.0
_LONGER_S = 5.0  # time enough to join, and to read ahead what fits in memory


def run(kafka: RealKafka, scale: Scale) -> Result:
    """A steady stream, then many at once: due already at the start, and due while they wait."""
    stream = int(scale.returning_s * _PER_S)
    paced, asleep = zip(*(_paced(kafka, stream) for _ in range(scale.rounds)), strict=True)
    count = scale.due_at_once
    overdue = tuple(_rate(kafka, count, 0.001) for _ in range(scale.rounds))
    awaited = tuple(_rate(kafka, count, _LONGER_S) for _ in range(scale.rounds))

    def over_rounds(percent: float) -> tuple[float, ...]:
        return tuple(percentile(late, percent) for late in paced)

    name = f"attempt after its time, {_PER_S} a second"
    earliest = tuple(min(late) for late in paced)
    return Result(
        (
            Figure(f"{name}, earliest", "ms", earliest, Target("at least", 0.0)),
            Figure(f"{name}, p50", "ms", over_rounds(50)),
            Figure(f"{name}, p99", "ms", over_rounds(99), Target("at most", 10.0)),
            Figure(
                "a bare process after its sleep, at the same time, p99",
                "ms",
                tuple(percentile(late, 99) for late in asleep),
            ),
            Figure(f"{count:,} due before the start", "messages/s", overdue),
            Figure(f"{count:,} due while they wait", "messages/s", awaited),
        ),
        notes=("its time: when the broker wrote the record (cut to the millisecond), plus the "
               "topic's delay",),
    )  # fmt: skip


def _paced(kafka: RealKafka, count: int) -> tuple[list[float], list[float]]:
    retries, config = new_retry_topics(kafka, [_DELAY_S]), config_of_new_group(kafka)
    ready, total = CONTEXT.Event(), count + _WARM_UP
    child = Child(late_ms, config, retries, new_letters_topic(kafka), total, ready)
    (topic,) = retries.topics
    producer = Producer(kafka.client_settings(**{"linger.ms": 0, "acks": 1}))
    next_s = 0.0
    for number, (partition, key, value, headers) in enumerate(
        retried_records(retries, topic, config["group.id"], total)
    ):
        producer.produce(topic, value, key, partition, headers=list(headers))
        producer.flush()
        if number + 1 == _WARM_UP:
            if not ready.wait(_READY_LIMIT_S):
                raise AssertionError("the retry line has not handled its first messages")
            sleeper = Child(asleep_ms, count)
            next_s = time.monotonic()
        elif number >= _WARM_UP:
            next_s += 1 / _PER_S
            time.sleep(max(next_s - time.monotonic(), 0))
    return child.result(), sleeper.result()


def asleep_ms(count: int) -> list[float]:
    """How late a process is that only sleeps, as often: what the machine takes from any."""
    late: list[float] = []
    due_s = time.monotonic()
    for _ in range(count):
        due_s += 1 / _PER_S
        time.sleep(max(due_s - time.monotonic(), 0))
        late.append((time.monotonic() - due_s) * 1000)
    return late


def late_ms(
    config: Config, retries: RetryTopics, letters: str, count: int, ready: Ready
) -> list[float]:
    """How long after its time each message is in the handler; below 0 where it was early."""
    late: list[float] = []
    delay_ms = retries.strategy.delays_ms[0]

    def handle(message: Message) -> None:
        late.append(time.time() * 1000 - message.timestamp()[1] - delay_ms)
        if len(late) == _WARM_UP:
            ready.set()
        if len(late) == count:
            consumer.stop()

    with retry_line(config, retries, letters) as consumer:
        consumer.run(handle)
    return late[_WARM_UP:]


def _rate(kafka: RealKafka, count: int, delay_s: float) -> float:
    retries, config = new_retry_topics(kafka, [delay_s]), config_of_new_group(kafka)
    fill(kafka, retries, retries.topics[0], config["group.id"], count)
    letters = new_letters_topic(kafka)
    return (count - 1) / in_child(returning_s, config, retries, letters, count)


def returning_s(config: Config, retries: RetryTopics, letters: str, count: int) -> float:
    """From the first handled message to the last."""
    started_s: list[float] = []

    def handle(_: Message) -> None:
        started_s.append(time.perf_counter())
        if len(started_s) == count:
            consumer.stop()

    with retry_line(config, retries, letters) as consumer:
        consumer.run(handle)
    return started_s[-1] - started_s[0]
