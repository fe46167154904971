"""Measures how long a message that leaves the line holds up those behind it."""

import time
from itertools import pairwise

from confluent_kafka import Message

from benchmarks.child import in_child
from benchmarks.contestants import Config
from benchmarks.dead_letter import letters_ms
from benchmarks.figures import Figure, Result, Target, percentile
from benchmarks.retry_topics.lines import live_line, new_letters_topic, new_retry_topics
from benchmarks.scale import Scale
from benchmarks.topics import config_of_new_group, filled_topic
from linear_retry import RetryTopics
from tests.real_kafka import RealKafka

_TARGET = Target("at most", 1.2)


def run(kafka: RealKafka, scale: Scale) -> Result:
    """Every message leaves the line, or is dead-lettered, one after another."""
    count = scale.letters_each
    topic = filled_topic(kafka, count + 1)
    figures = []
    for name, transactional in (("", False), (" in a transaction", True)):
        rounds = [_round(kafka, topic, count, transactional) for _ in range(scale.rounds)]
        hop, letter = zip(*rounds, strict=True)
        ratio = tuple(left / died for left, died in rounds)
        figures += [
            Figure(f"to a retry topic{name}, p50", "ms", hop),
            Figure(f"to the dead letters{name}, p50", "ms", letter),
            Figure(f"retry topic / dead letters{name}, p50", "times", ratio, _TARGET),
        ]
    return Result(tuple(figures))


def _round(kafka: RealKafka, topic: str, count: int, transactional: bool) -> tuple[float, float]:
    retries, letters = new_retry_topics(kafka, [3600]), new_letters_topic(kafka)
    left = in_child(
        hops_ms, config_of_new_group(kafka), topic, retries, letters, count, transactional
    )
    died = in_child(letters_ms, config_of_new_group(kafka), topic, letters, count, transactional)
    return percentile(left, 50), percentile(died, 50)


def hops_ms(
    config: Config,
    topic: str,
    retries: RetryTopics,
    letters: str,
    hops: int,
    transactional: bool,
) -> list[float]:
    """From each attempt's start to the next message's: the whole hop is in between."""
    started_s: list[float] = []

    def handle(_: Message) -> None:
        started_s.append(time.monotonic())
        if len(started_s) > hops:
            consumer.stop()
            return
        raise OSError("down")

    with live_line(config, topic, retries, letters, transactional=transactional) as consumer:
        consumer.run(handle)
    return [(after_s - before_s) * 1000 for before_s, after_s in pairwise(started_s)]
