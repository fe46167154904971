"""Writes records of the scheduler's topic again that Spark's Kafka source cannot read."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from linear_retry.records.record import OutgoingRecord
from linear_retry.spark.errors import JavaError
from linear_retry.spark.ingestion.planned_batch import LAST_MS, planned
from linear_retry.spark.scheduler.checkpoint import Checkpoint
from linear_retry.spark.scheduler.producer import write


def write_again(
    spark: SparkSession, config: Mapping[str, Any], topic: str, checkpoint: Checkpoint
) -> int:
    """Moves what Spark cannot read of the next micro-batch to the end of its partition.

    With all that is before it there, and with the time of now; returns how many. Killed amid it,
    the next call does it again: some are then sent twice, with the same ids. Raises `BrokerError`
    and `CheckpointError`.
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
    again = (
        OutgoingRecord(topic, each.key, each.value, each.headers, each.partition)
        for some in replace(batch, ends=ends).records(config, topic)
        for each in some
    )
    count = write(config, ((record, iter(())) for record in again))
    checkpoint.move_start(batch.number, topic, {**batch.starts, **ends})
    return count
