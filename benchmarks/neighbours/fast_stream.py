"""Measures FastStream with its Confluent broker: run by its own environment's Python."""

import asyncio
import json
import sys

# Both are in an environment of their own, so mypy does not find them here.
from faststream import FastStream  # type: ignore[import-not-found]  # see above
from faststream.confluent import KafkaBroker  # type: ignore[import-not-found]  # see above

from benchmarks.stopwatch import Stopwatch


def main() -> None:
    asked = json.loads(sys.argv[1])
    stopwatch = Stopwatch(asked["messages"])
    broker = KafkaBroker(asked["bootstrap"], config=asked["fetch"], logger=None)
    application = FastStream(broker, logger=None)
    count = stopwatch.handler()

    @broker.subscriber(  # type: ignore[untyped-decorator]  # see above
        asked["topic"],
        group_id=asked["group"],
        auto_offset_reset="earliest",
        max_workers=asked.get("at_once", 1),
    )
    async def handle(body: bytes) -> None:
        if "io_s" in asked:
            await asyncio.sleep(asked["io_s"])
        count(body)

    stopwatch.at_end = application.exit
    asyncio.run(application.run())
    print(stopwatch.elapsed_s)


if __name__ == "__main__":
    main()
