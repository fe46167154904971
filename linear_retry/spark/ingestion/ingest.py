"""Ingests dead letters and the journal from Kafka into the lake, each record once."""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, TypeAlias

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its usual name)
from pyspark.sql.streaming.query import StreamingQuery

from linear_retry.errors import BrokerError, ConfigurationError, LinearRetryError
from linear_retry.spark.ingestion.sources import (
    PlannedBatch,
    Source,
    find_sources,
    is_too_far,
    java_keys,
    planned,
    starting_offsets,
    stream_of,
)
from linear_retry.spark.lake.lake import DEAD_LETTERS, JOURNAL, Lake, LakeError
from linear_retry.spark.session import JavaError, is_concurrent, last_cause, with_settings
from linear_retry.spark.tables.entries import entry_projections
from linear_retry.spark.tables.letters import letter_projections
from linear_retry.spark.tables.sql import Projections, project, with_ms

Progress: TypeAlias = Callable[[int, int], object]
"""Called with how many offsets are done, and of how many."""

MAX_OFFSETS = 1_000_000
SETTINGS = {
    # With all columns of a table in one method, HotSpot would not compile it.
    "spark.sql.codegen.wholeStage": "false",
    # Else a second ingest in the same process would end the first without a word.
    "spark.sql.streaming.stopActiveRunOnRestart": "false",
}
"""Settings of a query, which keeps those that its session has when it starts."""
_POLL_S = 1
_PIECE = 2_000
"""Offsets of a micro-batch that are in memory, where Spark cannot read it."""
_COUNTS = "counts"
# Else a full disk would be told as "Task failed while writing rows".
_WITH_CAUSES = {"spark.sql.pyspark.jvmStacktrace.enabled": "true"}
_OPTIONS = {
    # Else records that retention or a purge removed would stop it for good. Counted as `gone`.
    "failOnDataLoss": "false",
    "groupIdPrefix": "linear-retry-spark",
}
TABLES: dict[str, Callable[[], Projections]] = {
    DEAD_LETTERS: letter_projections,
    JOURNAL: entry_projections,
}
"""The projections that make each table of the records of Spark's Kafka source."""


@dataclass(frozen=True, slots=True)
class Ingested:
    """The rows of one topic that this call has written, and how many of them have a problem.

    `gone` counts offsets that were removed (by retention, say) before they could be read.
    """

    table: str
    topic: str
    rows: int
    unreadable: int
    gone: int


def ingest(
    spark: SparkSession,
    config: Mapping[str, Any],
    lake: str | Lake,
    *,
    dead_letters: Iterable[str] = (),
    journal: str | None = None,
    every_s: float | None = None,
    max_offsets: int = MAX_OFFSETS,
    progress: Progress | None = None,
) -> tuple[Ingested, ...]:
    """Adds what is new in these topics to the tables `dead_letters` and `journal` of the lake.

    `config` are librdkafka's keys, as for `linear_retry.dlq`. It ends once all is ingested; with
    `every_s` never, but it ingests a batch so often. Interrupted or killed at any point and called
    again, each record is in its table once. A batch has up to `max_offsets` records, and becomes at
    most as many files as there are cores.

    Raises `ConfigurationError`, `BrokerError`, `UnknownTopicError` and `LakeError`, the latter also
    if another ingest is adding the rows of such a topic; and `SparkMissingError` if the session has
    no Kafka connector or no Delta Lake.
    """
    into = Lake(spark, lake) if isinstance(lake, str) else lake
    if not into.path:
        raise ConfigurationError(f"{lake!r} is not a directory for a lake; name another")
    sources = find_sources(config, dead_letters, journal)
    options = {**java_keys(config), "maxOffsetsPerTrigger": str(max_offsets)}
    made = {table: TABLES[table]() for table in {source.table for source in sources}}
    runs = [_Run(into, source, config, options) for source in sources]
    for run in runs:  # all of them, before the first is started
        run.prepare(made[run.table])
    _run_to_end(runs, every_s, progress)
    return tuple(run.result() for run in runs)


def _run_to_end(runs: "list[_Run]", every_s: float | None, progress: Progress | None) -> None:
    with ExitStack() as stack:
        for run in runs:
            run.start(every_s)
            stack.callback(run.stop)
        while not all([run.has_ended() for run in runs]):  # noqa: C419  (each is asked)
            if progress is not None:
                done = [run.done() for run in runs]
                progress(
                    sum(done),
                    sum(max(each, run.total()) for each, run in zip(done, runs, strict=True)),
                )


class _Run:
    """One streaming query, from one topic into one table.

    Delta Lake notes the number of each batch with its rows: a batch that Spark gives again, as it
    has not noted itself that it is done, adds nothing.
    """

    _query: StreamingQuery

    def __init__(
        self, lake: Lake, source: Source, config: Mapping[str, Any], options: Mapping[str, str]
    ) -> None:
        self._lake = lake
        self._config = config
        self._source = source
        self._options = options
        self._counts: dict[int, tuple[int, int]] = {}
        self._reread: dict[int, tuple[int, int]] = {}
        self._starts: dict[int, int] | None = None

    @property
    def table(self) -> str:
        return self._source.table

    def prepare(self, projections: Projections) -> None:
        """Finds where to begin, and creates the table."""
        self._projections = projections
        starting = starting_offsets(self._lake, self._source)
        options = {**_OPTIONS, **self._options}
        records = stream_of(self._lake.spark, self._source, starting, options)
        self._rows = self._projected(with_ms(records))
        self._lake.create(self._source.table, self._rows.schema)

    def start(self, every_s: float | None) -> None:
        """Starts the query. Raises `LakeError` if one runs already, in this process or another."""
        source, self._every_s = self._source, every_s
        counted = self._rows.observe(_COUNTS, *_sums())
        writer = counted.writeStream.format("delta").option("checkpointLocation", self._checkpoint)
        # A later release may have more columns.
        writer = writer.option("mergeSchema", "true")
        if every_s is None:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{round(every_s * 1000)} milliseconds")
        with with_settings(self._lake.spark, SETTINGS):
            try:
                self._query = writer.start(self._lake.place(source.table))
            except (PySparkException, JavaError) as error:
                raise self._error_of(error) from error

    def has_ended(self) -> bool:
        """Whether nothing is left to do; waits briefly. Raises the query's error."""
        try:
            return bool(self._query.awaitTermination(_POLL_S))
        except StreamingQueryException as error:
            if not is_too_far(self._text_of(error)):
                raise self._error_of(error) from error
        finally:
            self._note_progress()
        self._reread_batch()
        self.start(self._every_s)
        return False

    def total(self) -> int:
        """The number of offsets to read when this call began."""
        return sum(end - self._first(number) for number, (_, end) in self._source.bounds.items())

    def done(self) -> int:
        """The number of offsets read, by Spark's latest progress."""
        last = self._query.lastProgress
        if last is None or not last.sources:
            return 0
        ends = _offsets(last.sources[0].endOffset)
        return sum(end - self._first(number) for number, end in ends.items())

    def stop(self) -> None:
        self._query.stop()

    def result(self) -> Ingested:
        gone = sum(
            max(self._source.bounds[number][0] - start, 0)
            for number, start in (self._starts or {}).items()
            if number in self._source.bounds
        )
        source = self._source
        return Ingested(source.table, source.topic, *self._sums(), gone)

    def _reread_batch(self) -> None:
        """Adds a micro-batch that Spark cannot read, each record once, also if killed amid it.

        Delta Lake then has it as one of the query, which continues with the next one.
        """
        source, query = self._source, str(self._query.id)
        with self._lake.writing(source.table):
            batch = planned(self._lake.spark, self._checkpoint, source.topic)
            for number, piece in enumerate(batch.pieces(_PIECE)):
                self._append(piece, f"{query}/{batch.number}", number)
            self._append(PlannedBatch(batch.number, {}, {}), query, batch.number)
            is_its = (F.col("topic") == source.topic) & (F.col("topic_id") == source.topic_id)
            rows = self._lake.table(source.table).where(is_its)
            [counts] = rows.where(_within(batch)).agg(*_sums()).collect()
        self._reread[batch.number] = counts[0], counts[1]

    def _append(self, batch: PlannedBatch, application: str, version: int) -> None:
        """Adds records in one commit, unless Delta Lake has one of that application and version."""
        records = batch.frame(self._lake.spark, self._config, self._source.topic)
        writer = self._projected(records).write.format("delta").mode("append")
        writer = writer.option("txnAppId", application).option("txnVersion", version)
        writer.option("mergeSchema", "true").save(self._lake.place(self._source.table))

    def _projected(self, records: DataFrame) -> DataFrame:
        topic_id = F.lit(self._source.topic_id)
        return project(records, self._projections).withColumn("topic_id", topic_id)

    @property
    def _checkpoint(self) -> str:
        source = self._source
        return self._lake.checkpoint(source.table, source.topic, source.topic_id)

    def _note_progress(self) -> None:
        """Notes what only Spark's progress reports: where the first batch began, and the counts."""
        for each in self._query.recentProgress:
            if self._starts is None and each.sources:  # of a first ingest, it has no offsets
                self._starts = _offsets(each.sources[0].startOffset)
            if _COUNTS in each.observedMetrics:
                found = each.observedMetrics[_COUNTS].asDict()
                # Over Spark Connect, PySpark 4.0 has the row's parts in place of its columns.
                rows, unreadable = found.get("values") or found.values()
                self._counts[each.batchId] = rows, unreadable

    def _sums(self) -> tuple[int, int]:
        counts = (*self._counts.values(), *self._reread.values())
        rows, unreadable = zip((0, 0), *counts, strict=True)
        return sum(rows), sum(unreadable)

    def _error_of(self, error: Exception) -> LinearRetryError:
        return _error(self._source.topic, self._text_of(error))

    def _text_of(self, error: Exception) -> str:
        with with_settings(self._lake.spark, _WITH_CAUSES):
            return str(error)

    def _first(self, number: int) -> int:
        first = self._source.bounds.get(number, (0, 0))[0]
        return max((self._starts or {}).get(number, first), first)


def _sums() -> tuple[Column, Column]:
    return F.count(F.lit(1)).alias("rows"), F.count("problems").alias("unreadable")


def _within(batch: PlannedBatch) -> Column:
    """Whether a row is of a record of the micro-batch."""
    number, offset = F.col("partition"), F.col("offset")
    return reduce(
        or_,
        (
            (number == each) & offset.between(batch.starts.get(each, 0), end - 1)
            for each, end in batch.ends.items()
        ),
    )


def _offsets(text: str) -> dict[int, int]:
    """Parses `{"topic":{"0":12}}`, which PySpark 4.0 gives as Python's text of it."""
    pairs = re.findall(r"""["']([0-9]+)["']: ?([0-9]+)""", text)
    return {int(number): int(offset) for number, offset in pairs}


def _error(topic: str, text: str) -> LinearRetryError:
    if is_concurrent(text):
        return LakeError(
            f"another ingest is adding the rows of {topic!r}; wait until it has ended, and run "
            "this again: nothing is lost, and no row is there twice"
        )
    reason = last_cause(text).rpartition("terminated with exception: ")[2]
    reason = reason.partition(" SQLSTATE:")[0]
    kind = BrokerError if "org.apache.kafka" in reason else LakeError
    return kind(f"{topic} cannot be ingested any further: {reason}")
