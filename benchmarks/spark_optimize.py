"""Measures `spark optimize` on a lake of many small batches."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.child import in_child
from benchmarks.figures import Figure, Result
from benchmarks.letters import topic_of_letters
from benchmarks.on_spark import ROUNDS_AT_MOST, own_spark
from benchmarks.scale import Scale
from benchmarks.spark_episodes import timed
from linear_retry.spark import DEAD_LETTERS, Lake, ingest, optimize
from tests.real_kafka import RealKafka

_BATCHES = 60
_READS = 5


@dataclass(frozen=True, slots=True)
class Costs:
    """Before and after: the files, and the seconds of the fastest read; those of `optimize`."""

    files: tuple[int, int]
    read_s: tuple[float, float]
    optimize_s: float


def run(kafka: RealKafka, scale: Scale) -> Result:
    """Each in a process of its own."""
    letters = scale.ingested_letters // 10
    topic = topic_of_letters(kafka, letters)
    rounds = range(min(scale.rounds, ROUNDS_AT_MOST))
    found = [
        in_child(measured, kafka.bootstrap, topic, max(1, letters // _BATCHES)) for _ in rounds
    ]

    def figure(what: str, unit: str, value: Callable[[Costs], float]) -> Figure:
        return Figure(f"{letters:,} letters: {what}", unit, tuple(map(value, found)))

    return Result(
        (
            figure("files before", "files", lambda each: each.files[0]),
            figure("files after", "files", lambda each: each.files[1]),
            figure("read before", "s", lambda each: each.read_s[0]),
            figure("read after", "s", lambda each: each.read_s[1]),
            figure("optimize", "s", lambda each: each.optimize_s),
        ),
        notes=(f"in {_BATCHES} batches; read: a count by reason, the fastest of {_READS}",),
    )


def measured(bootstrap: str, topic: str, max_offsets: int) -> Costs:
    """Ingests the topic in small batches, and then puts them together."""
    with own_spark() as spark, tempfile.TemporaryDirectory() as directory:
        lake = Lake(spark, directory)

        def read() -> object:
            return lake.table(DEAD_LETTERS).groupBy("reason").count().collect()

        config = {"bootstrap.servers": bootstrap}
        ingest(spark, config, lake, dead_letters=[topic], max_offsets=max_offsets)
        before_s = min(timed(spark, read)[0] for _ in range(_READS))
        done = list[tuple[int, int]]()
        optimize_s, _ = timed(
            spark, lambda: done.extend((each.files_before, each.files) for each in optimize(lake))
        )
        after_s = min(timed(spark, read)[0] for _ in range(_READS))
    [(files_before, files)] = done
    return Costs((files_before, files), (before_s, after_s), optimize_s)
