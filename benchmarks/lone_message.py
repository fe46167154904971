"""Measures the latency that the consumer adds to a lone message, against a bare poll."""

import random
import time
from collections.abc import Callable
from multiprocessing.synchronize import Event as Ready
from typing import TypeAlias

from confluent_kafka import Message, Producer

from benchmarks.child import CONTEXT, Child
from benchmarks.contestants import ALIKE, Config, bare_polls, linear_consumer
from benchmarks.figures import Figure, Result, Target, percentile
from benchmarks.scale import Scale
from benchmarks.topics import config_of_new_group, filled_topic
from tests.real_kafka import RealKafka

_WARM_UP = 10
_SHORTEST_GAP_S, _LONGEST_GAP_S = 0.005, 0.045
_READY_LIMIT_S = 60.0

Reader: TypeAlias = Callable[[Config, str, int, Ready], list[float]]


def run(kafka: RealKafka, scale: Scale) -> Result:
    """Ours and bare in turn, each with a topic and a process of its own."""
    count = scale.lone_messages_each
    rounds = [
        (_latencies_ms(kafka, ours_ms, count), _latencies_ms(kafka, bare_ms, count))
        for _ in range(scale.rounds)
    ]
    figures = []
    for percent in (50, 99):
        ours = tuple(percentile(own, percent) for own, _ in rounds)
        bare = tuple(percentile(theirs, percent) for _, theirs in rounds)
        later = tuple(own - theirs for own, theirs in zip(ours, bare, strict=True))
        target = Target("at most", 2.0) if percent == 99 else None
        figures += [
            Figure(f"from producer to ours, p{percent}", "ms", ours),
            Figure(f"from producer to bare poll(1.0), p{percent}", "ms", bare),
            Figure(f"ours later than bare, p{percent}", "ms", later, target),
        ]
    return Result(tuple(figures))


def ours_ms(config: Config, topic: str, count: int, ready: Ready) -> list[float]:
    """How old each message is in the handler."""
    ages: list[float] = []
    with linear_consumer(config, topic) as consumer:
        note = _noting(ages, ready)

        def handle(message: Message) -> None:
            note(message)
            if len(ages) == count:
                consumer.stop()

        consumer.run(handle)
    return ages[_WARM_UP:]


def bare_ms(config: Config, topic: str, count: int, ready: Ready) -> list[float]:
    """The same, in a bare loop."""
    ages: list[float] = []
    bare_polls(config, topic, _noting(ages, ready), lambda: len(ages) == count)
    return ages[_WARM_UP:]


def _noting(ages: list[float], ready: Ready) -> Callable[[Message], None]:
    def note(message: Message) -> None:
        sent_ns = int(message.value() or 0)
        ages.append((time.monotonic_ns() - sent_ns) / 1e6)
        ready.set()

    return note


def _latencies_ms(kafka: RealKafka, reader: Reader, count: int) -> list[float]:
    topic, ready = filled_topic(kafka, 0, partitions=1), CONTEXT.Event()
    config, total = config_of_new_group(kafka, **ALIKE), count + _WARM_UP
    child = Child(reader, config, topic, total, ready)
    producer = Producer(kafka.client_settings(**{"linger.ms": 0, "acks": 1}))
    _send(producer, topic)
    # With its first message handled it has joined its group, and waits for the next.
    if not ready.wait(_READY_LIMIT_S):
        raise AssertionError(f"{reader.__name__} has not handled its first message")
    gaps = random.Random(1)
    for _ in range(total - 1):
        time.sleep(gaps.uniform(_SHORTEST_GAP_S, _LONGEST_GAP_S))
        _send(producer, topic)
    return child.result()


def _send(producer: Producer, topic: str) -> None:
    producer.produce(topic, str(time.monotonic_ns()))
    producer.flush()
