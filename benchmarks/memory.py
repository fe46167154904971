"""Measures memory over many openings of a circuit."""

import os
import statistics
from pathlib import Path

from confluent_kafka import Consumer, Message, TopicPartition

from benchmarks.child import in_child
from benchmarks.contestants import Config, bare_consumer, linear_consumer
from benchmarks.figures import Figure, Result, Target
from benchmarks.scale import Scale
from benchmarks.topics import config_of_new_group, filled_topic
from tests.real_kafka import RealKafka

_SAMPLES = 100
_MIB = 2**20
# Over 10,000 openings 2 MiB: less than what librdkafka's queues and the allocator sway by.
_FLAT_BYTES = 200.0


def run(kafka: RealKafka, scale: Scale) -> Result:
    """Two long runs: ours, and a bare consumer that is asked what an opening asks of it."""
    openings = scale.openings
    topic = filled_topic(kafka, openings)
    # After so short a wait the next message comes when a fetch in flight has ended: so be it soon.
    soon = {"fetch.wait.max.ms": 5}
    sizes = in_child(ours_bytes, config_of_new_group(kafka, **soon), topic, openings)
    bare = in_child(bare_bytes, config_of_new_group(kafka, **soon), topic, openings)
    flat, name = Target("at most", _FLAT_BYTES), "growth with each opening, after the first fifth"
    return Result(
        (
            Figure("resident at the first opening", "MiB", (sizes[0] / _MIB,)),
            Figure(f"resident after {openings:,} openings", "MiB", (sizes[-1] / _MIB,)),
            Figure("resident at the most", "MiB", (max(sizes) / _MIB,)),
            Figure(name, "bytes", (_growth_bytes(sizes, openings),), flat),
            Figure("the same of a bare consumer", "bytes", (_growth_bytes(bare, openings),)),
        )
    )


def _growth_bytes(sizes: list[int], openings: int) -> float:
    # The first fifth is left out: caches, pools and the allocator's arenas fill up then.
    settled = sizes[len(sizes) // 5 :]
    slope = statistics.linear_regression(range(len(settled)), settled).slope
    return slope * len(sizes) / openings


def ours_bytes(config: Config, topic: str, openings: int) -> list[int]:
    """Every message fails once, waits for nothing, and succeeds; sampled `_SAMPLES` times."""
    sizes: list[int] = []
    opened = 0
    failed = False

    def handle(_: Message) -> None:
        nonlocal opened, failed
        failed = not failed
        if failed:
            if opened % max(openings // _SAMPLES, 1) == 0:
                sizes.append(resident_bytes())
            opened += 1
            raise OSError("down")
        if opened == openings:
            sizes.append(resident_bytes())
            consumer.stop()

    with linear_consumer(config, topic, delays_s=[0]) as consumer:
        consumer.run(handle)
    return sizes


def bare_bytes(config: Config, topic: str, openings: int) -> list[int]:
    """Pause, seek and commit, as for an opening; resume, seek and read, as for a closing."""
    sizes: list[int] = []
    consumer = bare_consumer(config, topic)
    while (message := consumer.poll(1.0)) is None:
        pass
    for opened in range(openings):
        partitions = consumer.assignment()
        # As far on as ours: what is fetched again after each seek is as much.
        offset = opened // len(partitions)
        places = [TopicPartition(topic, place.partition, offset) for place in partitions]
        if opened % max(openings // _SAMPLES, 1) == 0:
            sizes.append(resident_bytes())
        consumer.pause(partitions)
        _seek(consumer, places)
        consumer.commit(message=message, asynchronous=True)
        consumer.poll(0.001)
        consumer.resume(partitions)
        _seek(consumer, places)
        consumer.poll(1.0)
    sizes.append(resident_bytes())
    consumer.close()
    return sizes


def _seek(consumer: Consumer, places: list[TopicPartition]) -> None:
    for place in places:
        consumer.seek(place)


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
