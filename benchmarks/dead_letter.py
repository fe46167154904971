"""Measures how long one dead letter holds up the messages behind it."""

import time
from itertools import pairwise

from confluent_kafka import Message

from benchmarks.child import in_child
from benchmarks.contestants import Config, linear_consumer
from benchmarks.figures import Figure, Result, Target, percentile
from benchmarks.scale import Scale
from benchmarks.topics import config_of_new_group, filled_topic
from tests.real_kafka import RealKafka


def run(kafka: RealKafka, scale: Scale) -> Result:
    """Every message is rejected for good, one after another; without transactions and with."""
    plain, transactional = [], []
    for _ in range(scale.rounds):
        plain.append(_round(kafka, scale, transactional=False))
        transactional.append(_round(kafka, scale, transactional=True))
    return Result(
        (
            *_figures("one letter", plain, Target("at most", 10.0)),
            Figure("one after another", "letters/s", _rate(plain), Target("at least", 100.0)),
            *_figures("one letter in a transaction", transactional),
            Figure("transactions one after another", "letters/s", _rate(transactional)),
        )
    )


def _round(kafka: RealKafka, scale: Scale, *, transactional: bool) -> list[float]:
    count = scale.letters_each
    topic, letters = filled_topic(kafka, count + 1), filled_topic(kafka, 0)
    config = config_of_new_group(kafka)
    return in_child(letters_ms, config, topic, letters, count, transactional)


def _figures(name: str, rounds: list[list[float]], target: Target | None = None) -> list[Figure]:
    median = tuple(percentile(elapsed, 50) for elapsed in rounds)
    slowest = tuple(percentile(elapsed, 99) for elapsed in rounds)
    return [Figure(f"{name}, p50", "ms", median, target), Figure(f"{name}, p99", "ms", slowest)]


def _rate(rounds: list[list[float]]) -> tuple[float, ...]:
    # The first one has the producer's start in it: its connection and its idempotent id.
    return tuple(1000 * (len(elapsed) - 1) / sum(elapsed[1:]) for elapsed in rounds)


def letters_ms(
    config: Config, topic: str, dead_letters: str, letters: int, transactional: bool
) -> list[float]:
    """From each attempt's start to the next message's: the whole letter is in between."""
    started_s: list[float] = []

    def handle(_: Message) -> None:
        started_s.append(time.monotonic())
        if len(started_s) > letters:
            consumer.stop()
            return
        raise ValueError("rejected")

    with linear_consumer(
        config, topic, dead_letters=dead_letters, transactional=transactional
    ) as consumer:
        consumer.run(handle)
    return [(after_s - before_s) * 1000 for before_s, after_s in pairwise(started_s)]
