"""How long does one dead letter hold the messages behind it?"""

from __future__ import annotations

import time
from itertools import pairwise

from confluent_kafka import Message

from benchmarks.child import apart
from benchmarks.contestants import Config, linear_consumer
from benchmarks.figures import Figure, Result, Target, percentile
from benchmarks.scale import Scale
from benchmarks.topics import config_of_new_group, filled_topic
from tests.real_kafka import RealKafka


def run(kafka: RealKafka, scale: Scale) -> Result:
    """Every message is rejected for good, one after another."""
    count = scale.letters_each
    topic, letters = filled_topic(kafka, count + 1), filled_topic(kafka, 0)
    rounds = [
        apart(letters_ms, config_of_new_group(kafka), topic, letters, count)
        for _ in range(scale.rounds)
    ]
    median = tuple(percentile(took, 50) for took in rounds)
    slowest = tuple(percentile(took, 99) for took in rounds)
    # The first one has the producer's start in it: its connection and its idempotent id.
    rate = tuple(1000 * (len(took) - 1) / sum(took[1:]) for took in rounds)
    return Result(
        (
            Figure("one letter, p50", "ms", median, Target("at most", 10.0)),
            Figure("one letter, p99", "ms", slowest),
            Figure("one after another", "letters/s", rate, Target("at least", 100.0)),
        )
    )


def letters_ms(config: Config, topic: str, dead_letters: str, letters: int) -> list[float]:
    """From each attempt's start to the next message's: the whole letter is in between."""
    started_s: list[float] = []

    def handle(_: Message) -> None:
        started_s.append(time.monotonic())
        if len(started_s) > letters:
            consumer.stop()
            return
        raise ValueError("rejected")

    with linear_consumer(config, topic, dead_letters=dead_letters) as consumer:
        consumer.run(handle)
    return [(after_s - before_s) * 1000 for before_s, after_s in pairwise(started_s)]
