"""Writes records of the scheduler's topic again that Spark's Kafka source cannot read."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from linear_retry.records.record import OutgoingRecord, Record
from linear_retry.spark.errors import JavaError
from linear_retry.spark.ingestion.planned_batch import LAST_MS, planned
from linear_retry.spark.scheduler.checkpoint import Checkpoint
from linear_retry.spark.scheduler.producer import write


def write_again(
    spark: SparkSession, config: Mapping[str, Any], topic: str, checkpoint: Checkpoint
) -> int:
    """Moves what Spark cannot read of the next micro-batch to the end of its partition.

    With all that is before it there, and with the time of now; returns how many. Killed amid it,
    the next call continues: a few are then sent twice, with the same ids. Raises `BrokerError`,
    also for one that has become too large for the topic, and `CheckpointError`.
    """
    try:
        batch = planned(spark, checkpoint.path, topic)
    except (PySparkException, JavaError) as error:
        raise checkpoint.unusable(error) from error
    ends = {
        each.partition: each.offset + 1
        for some in batch.records(config, topic)
        for each in some
        if abs(each.timestamp_ms) > LAST_MS
    }
    count, starts = 0, dict(batch.starts)
    for some in replace(batch, ends=ends).records(config, topic):

        def move(sent: int, some: list[Record] = some) -> None:
            # Else the next call would write again what stands before a record that is refused.
            starts.update((each.partition, each.offset + 1) for each in some[:sent])
            checkpoint.move_start(batch.number, topic, starts)

        again = (
            OutgoingRecord(topic, each.key, each.value, each.headers, each.partition)
            for each in some
        )
        # A broker takes a record by its compressed length: it may not take this one without.
        count += write(config, ((each, iter(())) for each in again), move, compression="zstd")
    checkpoint.move_start(batch.number, topic, starts | ends)
    return count
