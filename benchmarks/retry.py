"""Measures how punctual a retry is."""

import time

from confluent_kafka import Message

from benchmarks.child import in_child
from benchmarks.contestants import Config, linear_consumer
from benchmarks.figures import Figure, Result, Target, percentile
from benchmarks.scale import Scale
from benchmarks.topics import config_of_new_group, filled_topic
from linear_retry.events import CircuitOpened, Event, ProbeFailed
from tests.real_kafka import RealKafka

_DELAYS_S = [0.020, 0.047, 0.083, 0.131, 0.200]


def run(kafka: RealKafka, scale: Scale) -> Result:
    """Every message fails as often as the strategy is long, and then succeeds."""
    count = scale.retried_messages_each
    topic = filled_topic(kafka, count)
    rounds = [
        in_child(late_ms, config_of_new_group(kafka), topic, count) for _ in range(scale.rounds)
    ]

    def over_rounds(percent: float) -> tuple[float, ...]:
        return tuple(percentile(late, percent) for late in rounds)

    earliest = tuple(min(late) for late in rounds)
    return Result(
        (
            Figure("attempt after retry_at, earliest", "ms", earliest, Target("at least", 0.0)),
            Figure("attempt after retry_at, p50", "ms", over_rounds(50)),
            Figure("attempt after retry_at, p99", "ms", over_rounds(99), Target("at most", 5.0)),
            Figure("attempt after retry_at, latest", "ms", over_rounds(100)),
        ),
        notes=("retry_at is the event's: UTC, cut to the millisecond, so up to 1 ms before the "
               "delay is over",),
    )  # fmt: skip


def late_ms(config: Config, topic: str, messages: int) -> list[float]:
    """How long after its `retry_at` each retry started; below 0 where it was early."""
    late: list[float] = []
    retry_at_s: list[float] = []
    attempts = 0

    def note(event: Event) -> None:
        if isinstance(event, CircuitOpened | ProbeFailed):
            retry_at_s.append(event.retry_at.timestamp())

    def handle(_: Message) -> None:
        nonlocal attempts
        started_s = time.time()
        if retry_at_s:
            late.append((started_s - retry_at_s.pop()) * 1000)
        attempts += 1
        if attempts % (len(_DELAYS_S) + 1):
            raise OSError("down")
        if attempts == messages * (len(_DELAYS_S) + 1):
            consumer.stop()

    with linear_consumer(config, topic, delays_s=_DELAYS_S, listeners=(note,)) as consumer:
        consumer.run(handle)
    return late
