"""Measures Quix Streams: run by its own environment's Python."""

import json
import sys

from quixstreams import Application  # type: ignore[import-not-found]  # not in our environment

from benchmarks.stopwatch import Stopwatch


def main() -> None:
    asked = json.loads(sys.argv[1])
    stopwatch = Stopwatch(asked["messages"])
    application = Application(
        broker_address=asked["bootstrap"],
        consumer_group=asked["group"],
        auto_offset_reset="earliest",
        commit_interval=1.0,
        consumer_extra_config=asked["fetch"],
        loglevel="ERROR",
    )
    topic = application.topic(asked["topic"], value_deserializer="bytes")
    application.dataframe(topic).update(stopwatch.handler())
    stopwatch.at_end = application.stop
    application.run()
    print(stopwatch.elapsed_s)


if __name__ == "__main__":
    main()
