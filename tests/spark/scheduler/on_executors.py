"""A scheduler on two executors, by a process of its own.

`python -m tests.spark.scheduler.on_executors BOOTSTRAP TOPIC DEAD_LETTERS CHECKPOINT` runs until
its input ends, and then prints how many tasks each executor has ended.
"""

import json
import sys
from typing import Any

from linear_retry.spark.scheduler.query import SchedulerOnSpark, start
from linear_retry.spark.session import session
from tests.spark.conftest import INTERPRETED, settings

_MASTER = "local-cluster[2,1,1024]"
"""Two executors in JVMs of their own, with one core and 1,024 MiB each."""


def main(bootstrap: str, topic: str, letters: str, checkpoint: str) -> None:
    """Runs the scheduler with four shards."""
    one = SchedulerOnSpark(
        config={"bootstrap.servers": bootstrap},
        topic=topic,
        dead_letters=letters,
        checkpoint=checkpoint,
        allow=("*",),
        partitions=4,
    )
    more = {"spark.executor.memory": "512m", "spark.ui.enabled": "false"}
    with session(_MASTER, settings() | INTERPRETED | more) as spark:
        query = start(spark, one)
        print("started", flush=True)
        sys.stdin.read()
        query.stop()
        store: Any = spark.sparkContext._jsc.sc().statusStore()
        executors = store.executorList(True)
        found = [executors.apply(number) for number in range(executors.size())]
        print(json.dumps({each.id(): each.completedTasks() for each in found}))


if __name__ == "__main__":
    main(*sys.argv[1:])
