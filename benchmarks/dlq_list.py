"""Measures `dlq list` against a bare loop over the same letters, and its memory."""

import os
import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from benchmarks.child import in_child
from benchmarks.contestants import Config
from benchmarks.dlq_replay import replay
from benchmarks.figures import Figure, Result, Target
from benchmarks.letters import topic_of_letters
from benchmarks.machine import peak_memory_mib
from benchmarks.scale import Scale
from benchmarks.topics import PARTITIONS, config_of_new_group
from tests.real_kafka import RealKafka

_ROUNDS_AT_MOST = 3
_LIKE_OURS = {"fetch.queue.backoff.ms": 5, "fetch.wait.max.ms": 20, "enable.auto.commit": False}


def run(kafka: RealKafka, scale: Scale) -> Result:
    """In turn: the bare loop, the command into a pipe as lines, and as JSON.

    At the end all letters are replayed, and the command has a record of each to look at.
    """
    letters, origin = scale.listed_letters, "listed"
    kafka.create_topic(origin, PARTITIONS)
    topic = topic_of_letters(kafka, letters, origin)
    tenth = topic_of_letters(kafka, letters // 10, origin)
    config = config_of_new_group(kafka, **_LIKE_OURS)

    def listed(of: str, *options: str) -> tuple[float, float]:
        return in_child(list_s, ["dlq", "list", of, "--bootstrap", kafka.bootstrap, *options])

    in_child(bare_s, config, topic, letters)  # not counted: the broker's files are in memory then
    rounds = [
        (in_child(bare_s, config, topic, letters), listed(topic), listed(topic, "--json"))
        for _ in range(min(scale.rounds, _ROUNDS_AT_MOST))
    ]
    bare = tuple(bare_s for bare_s, _, _ in rounds)
    lines, objects = tuple(each for _, each, _ in rounds), tuple(each for _, _, each in rounds)
    small = tuple(listed(tenth)[1] for _ in rounds)
    in_child(replay, kafka.bootstrap, topic)
    replayed = tuple(listed(topic) for _ in rounds)
    return Result(
        (
            _rate("bare consume, key, value and headers touched", letters, bare),
            _rate("dlq list, lines", letters, tuple(elapsed_s for elapsed_s, _ in lines)),
            _rate("dlq list, --json", letters, tuple(elapsed_s for elapsed_s, _ in objects)),
            _ratio(
                "dlq list, lines / bare consume", bare, tuple(elapsed_s for elapsed_s, _ in lines)
            ),
            _ratio(
                "dlq list, --json / bare consume",
                bare,
                tuple(elapsed_s for elapsed_s, _ in objects),
            ),
            Figure(f"resident at the most, {letters // 10:,} letters", "MiB", small),
            Figure(f"the same, {letters:,} letters", "MiB", tuple(size for _, size in lines)),
            _rate(
                "dlq list, lines, all replayed", letters, tuple(elapsed for elapsed, _ in replayed)
            ),
            Figure(
                "resident at the most, all replayed", "MiB", tuple(size for _, size in replayed)
            ),
        ),
        notes=("the time of dlq list is that of the whole command, from its start to its end",),
    )


def _rate(name: str, letters: int, elapsed: tuple[float, ...]) -> Figure:
    return Figure(name, "letters/s", tuple(letters / elapsed_s for elapsed_s in elapsed))


def _ratio(name: str, bare: tuple[float, ...], ours: tuple[float, ...]) -> Figure:
    values = tuple(bare_s / our_s for bare_s, our_s in zip(bare, ours, strict=True))
    return Figure(name, "times", values, Target("at least", 0.3))


def bare_s(config: Config, topic: str, letters: int) -> float:
    """Seconds to read them all, and to look at what a letter is made of."""
    consumer, seen = Consumer(dict(config)), 0
    begun_s = time.perf_counter()
    consumer.assign(
        [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)]
    )
    while seen < letters:
        for message in consumer.consume(10_000, 0.1):
            message.key(), message.value(), message.headers()
            seen += message.error() is None
    elapsed_s = time.perf_counter() - begun_s
    consumer.close()
    return elapsed_s


def list_s(arguments: list[str]) -> tuple[float, float]:
    """Seconds that the command takes, written to nowhere, and the MiB that it had at the most."""
    begun_s = time.perf_counter()
    from linear_retry.cli import main

    sys.argv = ["linear-retry", *arguments]
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise AssertionError(f"dlq list has ended with {ended.code}") from ended
    return time.perf_counter() - begun_s, peak_memory_mib()
