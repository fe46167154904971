"""`python -m tests.torture.spark_scheduler.child BOOTSTRAP TOPIC CHECKPOINT`: a scheduler."""

import sys

from linear_retry.spark.scheduler.query import SchedulerOnSpark, start
from linear_retry.spark.session import session
from tests.spark.conftest import settings

if __name__ == "__main__":
    bootstrap, topic, checkpoint = sys.argv[1:]
    with session("local[2]", settings()) as spark:
        config = {"bootstrap.servers": bootstrap}
        scheduler = SchedulerOnSpark(
            config=config, topic=topic, checkpoint=checkpoint, allow=("*",), partitions=2
        )
        query = start(spark, scheduler)
        print("started", flush=True)
        query.awaitTermination()
