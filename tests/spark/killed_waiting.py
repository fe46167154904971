"""A query that fails, by a process of its own: `python -m tests.spark.killed_waiting ...`.

That is killed as soon as the failure is noted, with everything that it has begun.
"""

import os
import signal
import sys
from typing import Any
from unittest import mock

from pyspark.sql import DataFrame, SparkSession

from linear_retry import Strategy
from linear_retry.spark import foreach_batch
from linear_retry.spark.session import session
from linear_retry.spark.streaming.checkpoint_file import FailureCount
from tests.spark.conftest import INTERPRETED, settings

_write = FailureCount.write


def run(spark: SparkSession, bootstrap: str, topic: str, letters: str, checkpoint: str) -> None:
    """Reads the topic to its end, with a handler that always fails, and one delay."""
    batches = foreach_batch(
        _fail,
        strategy=Strategy(["1h"]),
        transient=ConnectionError,
        dead_letters=letters,
        config={"bootstrap.servers": bootstrap, "group.id": "billing"},
    )
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    source = source.option("subscribe", topic).option("startingOffsets", "earliest")
    writer = source.option("includeHeaders", "true").load().writeStream.foreachBatch(batches)
    writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    writer.start().awaitTermination()
    batches.close()


def _fail(rows: DataFrame, batch_id: int) -> None:
    raise ConnectionError


def _write_and_die(*args: Any) -> None:
    _write(*args)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    with (
        mock.patch.object(FailureCount, "write", _write_and_die),
        session("local[1]", settings() | INTERPRETED) as spark,
    ):
        run(spark, *sys.argv[1:])
