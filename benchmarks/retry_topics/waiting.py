"""Measures what messages cost while they wait in retry topics."""

import threading
import time
from dataclasses import dataclass

from benchmarks.child import in_child
from benchmarks.contestants import ALIKE, Config
from benchmarks.figures import Figure, Result, Target
from benchmarks.memory import resident_bytes
from benchmarks.retry_topics.lines import fill, new_letters_topic, new_retry_topics, retry_line
from benchmarks.scale import Scale
from benchmarks.topics import PARTITIONS, config_of_new_group, filled_topic
from benchmarks.while_open import Cost, bare, now
from linear_retry import RetryTopics
from tests.kafka_operations import wait_until
from tests.real_kafka import RealKafka

_DELAYS_S = (3600, 7200, 10_800)
_AHEAD = 2000  # of each partition; the others stay in the topic
_SETTLE_S = 2.0
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Waiting:
    """Per cent of a core, and resident MiB: at first, and how many more in the end."""

    cpu_percent: float
    resident_mib: float
    growth_mib: float


def run(kafka: RealKafka, scale: Scale) -> Result:
    """None is due for an hour; beside it an empty retry topic, and a bare consumer that waits."""
    count, open_s = scale.waiting_messages, scale.open_s
    retries, config = new_retry_topics(kafka, _DELAYS_S), config_of_new_group(kafka)
    each = count // len(retries.topics)
    for topic in retries.topics:
        fill(kafka, retries, topic, config["group.id"], each)
    empty, letters = new_retry_topics(kafka, _DELAYS_S), new_letters_topic(kafka)
    paused = filled_topic(kafka, PARTITIONS)
    ahead = min(each // PARTITIONS, _AHEAD) * PARTITIONS * len(retries.topics)
    rounds = [
        (
            in_child(waiting, config, retries, letters, ahead, open_s),
            in_child(waiting, config_of_new_group(kafka), empty, letters, 0, open_s),
            in_child(bare, config_of_new_group(kafka, **ALIKE), paused, open_s),
        )
        for _ in range(scale.rounds)
    ]
    ours, none, theirs = zip(*rounds, strict=True)
    more = tuple(a.resident_mib - b.resident_mib for a, b in zip(ours, none, strict=True))
    growth = tuple(found.growth_mib for found in ours)
    return Result(
        (
            Figure(
                f"CPU, {count:,} messages in {len(_DELAYS_S)} topics",
                "%",
                tuple(found.cpu_percent for found in ours),
                Target("at most", 0.1),
            ),
            Figure("CPU, empty retry topics", "%", tuple(found.cpu_percent for found in none)),
            Figure("CPU, bare poll(1.0) while paused", "%", tuple(c.cpu_percent for c in theirs)),
            Figure("resident, more than with empty topics", "MiB", more),
            Figure(f"growth in {open_s:g} s", "MiB", growth, Target("at most", 1.0)),
        ),
        notes=(f"{ahead:,} of the messages are in memory, each of 200 bytes, with its headers",),
    )


def waiting(
    config: Config, retries: RetryTopics, letters: str, ahead: int, open_s: float
) -> Waiting:
    """From when `ahead` messages are in memory."""
    found: list[Waiting] = []

    def measure() -> None:
        wait_until(lambda: consumer.health().waiting >= ahead, "the messages are in memory")
        time.sleep(_SETTLE_S)
        begin, size = now(0), resident_bytes()
        time.sleep(open_s)
        cost, grown = Cost.between(begin, now(0)), resident_bytes() - size
        found.append(Waiting(cost.cpu_percent, size / _MIB, grown / _MIB))
        consumer.stop()

    with retry_line(config, retries, letters) as consumer:
        watch = threading.Thread(target=measure)
        watch.start()
        consumer.run(_not_due)
        watch.join()
    return found[0]


def _not_due(message: object) -> None:
    raise AssertionError(f"{message!r} was attempted before its time")
