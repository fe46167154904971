"""Measures Arroyo: run by its own environment's Python."""

import json
import sys
from collections.abc import Mapping
from typing import Any

# All of it is in an environment of its own, so mypy finds none of it here.
from arroyo import Partition, Topic  # type: ignore[import-not-found]  # see above
from arroyo.backends.kafka import KafkaConsumer, build_kafka_consumer_configuration  # type: ignore[import-not-found]  # see above
from arroyo.commit import ONCE_PER_SECOND  # type: ignore[import-not-found]  # see above
from arroyo.processing import StreamProcessor  # type: ignore[import-not-found]  # see above
from arroyo.processing.strategies import CommitOffsets, ProcessingStrategyFactory, RunTask  # type: ignore[import-not-found]  # see above

from benchmarks.stopwatch import Stopwatch


class Handling(ProcessingStrategyFactory):  # type: ignore[misc]  # its base is unknown here
    """Arroyo's plainest way: one task for each message, offsets committed behind it."""

    def __init__(self, stopwatch: Stopwatch) -> None:
        self._handle = stopwatch.handler()

    def create_with_partitions(self, commit: Any, _: Mapping[Partition, int]) -> Any:
        return RunTask(self._handle, CommitOffsets(commit))


def main() -> None:
    asked = json.loads(sys.argv[1])
    stopwatch = Stopwatch(asked["messages"])
    settings = build_kafka_consumer_configuration(
        asked["fetch"],
        bootstrap_servers=[asked["bootstrap"]],
        group_id=asked["group"],
        auto_offset_reset="earliest",
    )
    topic, consumer = Topic(asked["topic"]), KafkaConsumer(settings)
    processor = StreamProcessor(consumer, topic, Handling(stopwatch), ONCE_PER_SECOND)
    stopwatch.at_end = processor.signal_shutdown
    processor.run()
    print(stopwatch.elapsed_s)


if __name__ == "__main__":
    main()
