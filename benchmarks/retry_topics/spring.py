"""Measures Spring Kafka's `@RetryableTopic` beside ours: how late, and how many."""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from confluent_kafka import Producer

from benchmarks.figures import Figure, Result, percentile
from benchmarks.java import NotBuiltError
from benchmarks.retry_topics.attempts import (
    SPRING,
    WARM_UP,
    Attempts,
    Contestant,
    Ours,
    Spring,
)
from benchmarks.scale import Scale
from benchmarks.topics import PARTITIONS
from tests.real_kafka import RealKafka

_PER_S = 200
_DELAY_S = 1.0
_Start: TypeAlias = Callable[[RealKafka, str, int, float], Contestant]


@dataclass(frozen=True, slots=True)
class _Entry:
    """`share`: it is given one message of so many, where all are there at once."""

    name: str
    start: _Start
    share: int = 1


_ENTRIES = (
    _Entry("ours", Ours),
    _Entry("Spring Kafka", partial(Spring, seeks=True), share=100),
    _Entry("Spring, no seeks", partial(Spring, seeks=False), share=20),
)

_numbers = itertools.count(1)


def run(kafka: RealKafka, scale: Scale, build: Callable[[], object] = SPRING.build) -> Result:
    """Each message fails once, and is attempted again a second later."""
    try:
        build()
    except NotBuiltError as error:
        return Result((), notes=(f"Spring Kafka is not here: {error}",))
    late: list[list[list[float]]] = [[] for _ in _ENTRIES]
    rates: list[list[tuple[float, float]]] = [[] for _ in _ENTRIES]
    for _ in range(scale.rounds):
        for index, entry in enumerate(_ENTRIES):
            paced = _paced(kafka, entry.start, int(scale.returning_s * _PER_S))
            late[index].append(_late_ms(paced))
            count = max(scale.due_at_once // entry.share, WARM_UP)
            rates[index].append(rates_of(_at_once(kafka, entry.start, count)))
    figures = [
        figure
        for entry, each_late, each_rates in zip(_ENTRIES, late, rates, strict=True)
        for figure in _figures(entry.name, each_late, each_rates)
    ]
    return Result(
        tuple(figures),
        notes=("late: from the start of the first attempt to that of the second, without the "
               f"delay of {_DELAY_S:g} s",),
    )  # fmt: skip


def _figures(
    name: str, late: list[list[float]], rates: list[tuple[float, float]]
) -> tuple[Figure, ...]:
    left, returned = zip(*rates, strict=True)
    paced = f"{name}: late at {_PER_S} a second"
    return (
        Figure(f"{paced}, p50", "ms", tuple(percentile(each, 50) for each in late)),
        Figure(f"{paced}, p99", "ms", tuple(percentile(each, 99) for each in late)),
        Figure(f"{name}: leave the line", "messages/s", left),
        Figure(f"{name}: leave it and are back", "messages/s", returned),
    )


def _paced(kafka: RealKafka, start: _Start, count: int) -> Attempts:
    topic, total = _new_topic(kafka), count + WARM_UP
    contestant = start(kafka, topic, total, _DELAY_S)
    producer = Producer(kafka.client_settings(**{"linger.ms": 0, "acks": 1}))
    for number in range(WARM_UP):
        _send(producer, topic, number)
    contestant.wait_until_ready()
    next_s = time.monotonic()
    for number in range(WARM_UP, total + 1):  # one more: ours stops with it
        _send(producer, topic, number)
        next_s += 1 / _PER_S
        time.sleep(max(next_s - time.monotonic(), 0))
    attempts = contestant.attempts()
    return {name: each for name, each in attempts.items() if int(name) >= WARM_UP}


def _at_once(kafka: RealKafka, start: _Start, count: int) -> Attempts:
    topic = _new_topic(kafka)
    values = ((number % PARTITIONS, None, b"%d" % number, ()) for number in range(count + 1))
    kafka.produce(topic, values)
    contestant = start(kafka, topic, count, _DELAY_S)
    contestant.wait_until_ready()
    return contestant.attempts()


def _new_topic(kafka: RealKafka) -> str:
    topic = f"retried-{next(_numbers)}"
    kafka.create_topic(topic, PARTITIONS)
    return topic


def _send(producer: Producer, topic: str, number: int) -> None:
    producer.produce(topic, str(number), partition=number % PARTITIONS)
    producer.flush()


def _late_ms(attempts: Attempts) -> list[float]:
    return [(again_s - first_s - _DELAY_S) * 1000 for first_s, again_s in attempts.values()]


def rates_of(attempts: Attempts) -> tuple[float, float]:
    """Messages per second: until all have left, and until all are back, without the one delay."""
    first = sorted(first_s for first_s, _ in attempts.values())
    last_s = max(again_s for _, again_s in attempts.values())
    left = (len(first) - 1) / (first[-1] - first[0])
    return left, len(first) / (last_s - first[0] - _DELAY_S)
