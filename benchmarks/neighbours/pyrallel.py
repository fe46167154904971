"""Measures Pyrallel Consumer: run by its own environment's Python."""

import asyncio
import json
import sys
from typing import Any

# All of it is in an environment of its own, so mypy finds none of it here.
from pyrallel_consumer.config import KafkaConfig  # type: ignore[import-not-found]  # see above
from pyrallel_consumer.consumer import PyrallelConsumer  # type: ignore[import-not-found]  # see above

from benchmarks.stopwatch import Stopwatch


async def _measure(asked: dict[str, Any], stopwatch: Stopwatch) -> None:
    config = KafkaConfig()
    config.BOOTSTRAP_SERVERS, config.CONSUMER_GROUP = [asked["bootstrap"]], asked["group"]
    config.dlq_enabled = False
    config.parallel_consumer.execution.max_in_flight = asked["at_once"]
    ended, count = asyncio.Event(), stopwatch.handler()
    stopwatch.at_end = ended.set

    async def handle(item: object) -> None:
        await asyncio.sleep(asked["io_s"])
        count(item)

    consumer = PyrallelConsumer(config=config, worker=handle, topic=asked["topic"])
    await consumer.start()
    await ended.wait()
    await consumer.stop()


def main() -> None:
    asked = json.loads(sys.argv[1])
    stopwatch = Stopwatch(asked["messages"])
    asyncio.run(_measure(asked, stopwatch))
    print(stopwatch.elapsed_s)


if __name__ == "__main__":
    main()
