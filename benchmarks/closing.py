"""Measures how soon after a circuit has closed the next message comes."""

import time

from confluent_kafka import Message

from benchmarks.child import in_child
from benchmarks.contestants import ALIKE, Config, linear_consumer
from benchmarks.figures import Figure, Result, Target, percentile
from benchmarks.scale import Scale
from benchmarks.topics import config_of_new_group, filled_topic
from tests.real_kafka import RealKafka

# A fetch that is in flight at the opening is waited for at the closing: the first wait is shorter
# than `fetch.wait.max.ms`, the second is longer, as waits usually are.
_DELAYS_S = (0.02, 0.15)
_PROMISE_MS = ALIKE["fetch.wait.max.ms"] + 50.0


def run(kafka: RealKafka, scale: Scale) -> Result:
    """Every message fails once, and succeeds at its second attempt."""
    count = scale.closings_each
    topic = filled_topic(kafka, count + 1)
    rounds = [
        [
            in_child(gaps_ms, config_of_new_group(kafka), topic, count, wait_s)
            for wait_s in _DELAYS_S
        ]
        for _ in range(scale.rounds)
    ]
    figures = []
    for wait_s, gaps_of_rounds in zip(_DELAYS_S, zip(*rounds, strict=True), strict=True):
        name = f"to the next message after a wait of {wait_s * 1000:g} ms"
        median, slow = (
            tuple(percentile(gaps, percent) for gaps in gaps_of_rounds) for percent in (50, 99)
        )
        figures += [
            Figure(f"{name}, p50", "ms", median),
            Figure(f"{name}, p99", "ms", slow, Target("at most", _PROMISE_MS)),
        ]
    return Result(tuple(figures))


def gaps_ms(config: Config, topic: str, closings: int, wait_s: float) -> list[float]:
    """From each successful probe's end to the start of the next message's first attempt."""
    gaps: list[float] = []
    succeeded_s = 0.0
    failed = False

    def handle(_: Message) -> None:
        nonlocal succeeded_s, failed
        started_s = time.monotonic()
        failed = not failed
        if failed:
            if succeeded_s:
                gaps.append((started_s - succeeded_s) * 1000)
            if len(gaps) == closings:
                consumer.stop()
                return
            raise OSError("down")
        succeeded_s = time.monotonic()

    with linear_consumer(config, topic, delays_s=[wait_s]) as consumer:
        consumer.run(handle)
    return gaps
