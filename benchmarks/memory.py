"""Does memory stay flat, however often the circuit opens?"""

from __future__ import annotations

import os
import statistics
from pathlib import Path

from confluent_kafka import Message

from benchmarks.child import apart
from benchmarks.contestants import Config, linear_consumer
from benchmarks.figures import Figure, Result, Target
from benchmarks.scale import Scale
from benchmarks.topics import config_of_new_group, filled_topic
from tests.real_kafka import RealKafka

_SAMPLES = 100
_MIB = 2**20
# Over 10,000 openings 2 MiB: less than what librdkafka's queues and the allocator sway by.
_FLAT_BYTES = 200.0


def run(kafka: RealKafka, scale: Scale) -> Result:
    """One long run: every message fails once, waits for nothing, and succeeds."""
    openings = scale.openings
    topic = filled_topic(kafka, openings)
    # After so short a wait the next message comes when a fetch in flight has ended: so be it soon.
    config = config_of_new_group(kafka, **{"fetch.wait.max.ms": 5})
    sizes = apart(resident_bytes, config, topic, openings)
    # The first fifth is left out: caches, pools and the allocator's arenas fill up then.
    settled = sizes[len(sizes) // 5 :]
    slope = statistics.linear_regression(range(len(settled)), settled).slope
    return Result(
        (
            Figure("resident at the first opening", "MiB", (sizes[0] / _MIB,)),
            Figure(f"resident after {openings:,} openings", "MiB", (sizes[-1] / _MIB,)),
            Figure("resident at the most", "MiB", (max(sizes) / _MIB,)),
            Figure(
                "growth with each opening, after the first fifth",
                "bytes",
                (slope * _SAMPLES / openings,),
                Target("at most", _FLAT_BYTES),
            ),
        )
    )


def resident_bytes(config: Config, topic: str, openings: int) -> list[int]:
    """How large this process is, sampled `_SAMPLES` times on the way."""
    sizes: list[int] = []
    opened = 0
    failed = False

    def handle(_: Message) -> None:
        nonlocal opened, failed
        failed = not failed
        if failed:
            if opened % max(openings // _SAMPLES, 1) == 0:
                sizes.append(_resident_bytes())
            opened += 1
            raise OSError("down")
        if opened == openings:
            sizes.append(_resident_bytes())
            consumer.stop()

    with linear_consumer(config, topic, delays_s=[0]) as consumer:
        consumer.run(handle)
    return sizes


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
