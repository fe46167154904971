"""Measures the processor time of each success: run with the package of any commit.

Imports nothing but the package, whose path is in `PYTHONPATH`.
"""

import json
import logging
import sys
from time import thread_time

from confluent_kafka import Message

from linear_retry import LinearConsumer, Strategy


def main() -> None:
    """Prints the microseconds per message, from the first handled one to the last."""
    asked = json.loads(sys.argv[1])
    logging.getLogger("linear_retry").addHandler(logging.NullHandler())
    seen, messages, begun_s, ended_s = 0, asked["messages"], 0.0, 0.0

    def handle(_: Message) -> None:
        nonlocal seen, begun_s, ended_s
        seen += 1
        if seen == 1:
            begun_s = thread_time()
        elif seen == messages:
            ended_s = thread_time()
            consumer.stop()

    with LinearConsumer(
        asked["config"],
        [asked["topic"]],
        strategy=Strategy([1]),
        transient=OSError,
        on_exhausted="stop",
        on_permanent="stop",
    ) as consumer:
        consumer.run(handle)
    print((ended_s - begun_s) / messages * 1e6)


if __name__ == "__main__":
    main()
