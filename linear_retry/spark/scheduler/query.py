"""The streaming query of the scheduler."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its usual name)
from pyspark.sql.streaming.query import StreamingQuery

from linear_retry.errors import ConfigurationError, LinearRetryError
from linear_retry.records.dead_letter import resolutions_topic
from linear_retry.records.topics.names import check_topic_name, derived_name
from linear_retry.scheduler.destinations import Destinations, check_patterns
from linear_retry.spark.ingestion.sources import (
    Source,
    find_sources,
    is_too_far,
    java_keys,
    librdkafka_keys,
    stream_of,
)
from linear_retry.spark.scheduler.checkpoint import Checkpoint, Marker, fenced, has_ended
from linear_retry.spark.scheduler.intake import CHUNK, COLUMNS, Intake, write_again
from linear_retry.spark.scheduler.processor import OUTPUT, SchedulerProcessor
from linear_retry.spark.scheduler.sender import Targets
from linear_retry.spark.scheduler.state import state_session
from linear_retry.spark.session import JavaError

MAX_OFFSETS = 100_000
OBSERVED = "scheduler"
"""The name of the query's observed metrics: the sums of `OUTPUT`, and a problem."""
_AT_ONCE = "1000"
"""Records in a Python worker at a time: each may be a megabyte."""
# A task waits for what is due within the next second: more often, a micro-batch only costs.
_EVERY = "1 second"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerOnSpark:
    """What a scheduler on Spark reads, where it keeps it, and where it may send.

    `config` holds librdkafka's keys of the cluster; what cannot be sent goes to `dead_letters`, by
    default the topic's name with `.dlq`. `partitions` are those of the state, by default Spark's
    default parallelism; they stay as they are, unless the checkpoint is resized.
    """

    config: Mapping[str, Any]
    topic: str
    checkpoint: str
    allow: Sequence[str]
    dead_letters: str | None = None
    partitions: int | None = None
    max_offsets: int = MAX_OFFSETS

    def __post_init__(self) -> None:
        """Checks the values. Raises `ConfigurationError`."""
        check_topic_name(self.topic, "--topic")
        check_topic_name(self.letters, "--dead-letters")
        check_topic_name(
            resolutions_topic(self.letters), "--dead-letters, the topic of resolutions"
        )
        check_not_read(self.topic, self.letters, "--dead-letters")
        check_patterns(self.allow)

    @property
    def letters(self) -> str:
        return self.dead_letters or derived_name(self.topic, "dlq")

    @property
    def targets(self) -> Targets:
        return Targets(librdkafka_keys(self.config), self.topic, self.letters)

    @property
    def destinations(self) -> Destinations:
        return Destinations(self.topic, tuple(self.allow), self.letters)


def check_not_read(topic: str, letters: str, option: str) -> None:
    """Raises `ConfigurationError` if dead letters would go to the scheduler's own topic.

    It would read each of them, as a record that cannot be sent, and write it again, for ever.
    """
    if letters == topic:
        raise ConfigurationError(
            f"{option}: {letters!r} is the topic that the scheduler reads; name another one for "
            "dead letters"
        )


def start(
    spark: SparkSession,
    scheduler: SchedulerOnSpark,
    run: str | None = None,
    error: str | None = None,
) -> StreamingQuery:
    """Starts the query, which continues where its checkpoint ends.

    It takes the checkpoint over: an earlier `service.run` on it ends. `run` is an id of the caller,
    and `error` what the caller's last query on the checkpoint has ended with; None: it had none.

    Raises `ConfigurationError` for a checkpoint of another topic or number of partitions, or one
    that is drained, `FencedError` where another one was started since the `error`, `UsageError`
    where another one starts at the same moment, `UnknownTopicError`, `BrokerError`,
    `CheckpointError` and `SparkMissingError`.
    """
    source, _ = find_sources(scheduler.config, [scheduler.topic, scheduler.letters])
    checkpoint = Checkpoint(spark, scheduler.checkpoint)
    marker = _marker(checkpoint, scheduler, source.topic_id, spark)
    if error is not None:
        if marker.run not in (None, run):
            raise fenced(checkpoint.path)
        if is_too_far(error):
            write_again(spark, scheduler.config, scheduler.topic, checkpoint)
    own = state_session(spark)
    own.conf.set("spark.sql.shuffle.partitions", str(marker.partitions))
    own.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", _AT_ONCE)
    intake = Intake(scheduler.destinations, _shards(own, marker.partitions))
    chunks = _records(own, scheduler, source, marker).mapInArrow(intake, CHUNK)
    processor = SchedulerProcessor(scheduler.targets)
    done = chunks.groupBy("shard").transformWithStateInPandas(
        processor, OUTPUT, "Update", "processingTime"
    )
    writer = (
        _observed(done)
        .writeStream.format("noop")
        .outputMode("update")
        .trigger(processingTime=_EVERY)
    )
    checkpoint.plan()
    writer = writer.option("checkpointLocation", scheduler.checkpoint)
    try:
        query = writer.queryName(f"scheduler of {scheduler.topic}").start()
    except JavaError as refused:
        raise checkpoint.unusable(refused) from refused
    if error is None:
        try:
            checkpoint.claim(run or uuid4().hex)
        except LinearRetryError:
            query.stop()
            raise
    return query


def _observed(done: DataFrame) -> DataFrame:
    """The sums of a micro-batch are in its progress: the rows themselves go nowhere."""
    names = ("sent", "letters", "undelivered")
    return done.observe(
        OBSERVED, *(F.sum(n).alias(n) for n in names), F.max("problem").alias("problem")
    )


def _marker(
    checkpoint: Checkpoint, scheduler: SchedulerOnSpark, topic_id: str, spark: SparkSession
) -> Marker:
    if checkpoint.marker() is None:
        partitions = scheduler.partitions or spark.sparkContext.defaultParallelism
        new = Marker(topic=scheduler.topic, topic_id=topic_id, partitions=partitions)
        checkpoint.write(new)
    found = checkpoint.open(scheduler.topic, topic_id)
    if found.ended is not None:
        raise has_ended(checkpoint.path, found.ended)
    if scheduler.partitions not in (None, found.partitions):
        raise ConfigurationError(
            f"{checkpoint.path}: its state has {found.partitions} partitions, not "
            f"{scheduler.partitions}; `spark scheduler resize` makes another one of it"
        )
    return found


def _records(
    spark: SparkSession, scheduler: SchedulerOnSpark, source: Source, marker: Marker
) -> DataFrame:
    starting = {int(partition): offset for partition, offset in marker.starting.items()}
    options = {
        "groupIdPrefix": "linear-retry-scheduler",
        "maxOffsetsPerTrigger": str(scheduler.max_offsets),
    }
    options |= java_keys(scheduler.config)
    return stream_of(spark, source, starting, options).select(*COLUMNS)


def _shards(spark: SparkSession, partitions: int) -> list[int]:
    """Returns a key for each partition of the state, which Spark's hash puts there.

    With as many keys as partitions, but any, some partitions would have several, and some none.
    """
    keys = spark.range(100 * partitions)
    found = keys.selectExpr("id", f"pmod(hash(id), {partitions}) AS number").groupBy("number")
    rows = found.min("id").orderBy("number").collect()
    assert len(rows) == partitions
    return [row[1] for row in rows]
