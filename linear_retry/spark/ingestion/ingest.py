"""Ingests dead letters and the journal from Kafka into the lake, each record once."""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its usual name)
from pyspark.sql.streaming.query import StreamingQuery

from linear_retry.errors import BrokerError, ConfigurationError, LinearRetryError
from linear_retry.spark.errors import last_cause
from linear_retry.spark.ingestion.kafka_options import java_keys
from linear_retry.spark.ingestion.sources import Source, claim, find_sources
from linear_retry.spark.lake.lake import DEAD_LETTERS, JOURNAL, Lake, LakeError
from linear_retry.spark.session import CONNECTOR, SparkMissingError
from linear_retry.spark.tables.entries import entry_projections
from linear_retry.spark.tables.letters import letter_projections
from linear_retry.spark.tables.sql import Projections, project

Progress: TypeAlias = Callable[[int, int], object]
"""Called with how many offsets are done, and of how many."""

MAX_OFFSETS = 1_000_000
SETTINGS = {
    # How many days a task writes at the same time. If there are more, rows are sorted by day first;
    # without this setting they always are, and sorting a million letters spills to disk.
    "spark.sql.maxConcurrentOutputFileWriters": "4",
    # With all columns of a table in one method, HotSpot would not compile it.
    "spark.sql.codegen.wholeStage": "false",
}
"""Settings of a batch's session."""
_POLL_S = 1
_OPTIONS = {
    "startingOffsets": "earliest",
    "includeHeaders": "true",
    # Letters of aborted transactions do not exist.
    "kafka.isolation.level": "read_committed",
    # Else records that retention or a purge removed would stop it for good. Counted as `gone`.
    "failOnDataLoss": "false",
    "groupIdPrefix": "linear-retry-spark",
    # Only existing records are requested. But after the last one Kafka's client fetches once more,
    # and Spark, which then asks for the partition's end, gets the answer only after that fetch.
    "kafka.fetch.max.wait.ms": "10",
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
    most as many files a day as there are cores.

    Raises `ConfigurationError`, `BrokerError`, `UnknownTopicError` and `LakeError`. Needs a classic
    session, not one of Spark Connect, with the Kafka connector.
    """
    into = Lake(spark, lake) if isinstance(lake, str) else lake
    if not into.path:
        raise ConfigurationError(f"{lake!r} is not a directory for a lake; name another")
    into.require_classic()
    sources = find_sources(config, dead_letters, journal)
    options = {**java_keys(config), "maxOffsetsPerTrigger": str(max_offsets)}
    with ExitStack() as stack:
        renewals = []
        for source in sources:  # all of them, before the first is started
            into.prepare(source.table, source.topic)
            renewals.append(stack.enter_context(into.locked(source.table, source.topic)))
            claim(into, source)
        made = {table: TABLES[table]() for table in {source.table for source in sources}}
        runs = []
        for source in sources:
            run = _Run(into, source, made[source.table], options, every_s)
            stack.callback(run.stop)
            runs.append(run)
        while not all([run.has_ended() for run in runs]):  # noqa: C419  (each is asked)
            for renew in renewals:
                renew()
            if progress is not None:
                done = [run.done() for run in runs]
                progress(
                    sum(done),
                    sum(max(each, run.total()) for each, run in zip(done, runs, strict=True)),
                )
        return tuple(run.result() for run in runs)


class _Run:
    """One streaming query, from one topic into one table."""

    def __init__(
        self,
        lake: Lake,
        source: Source,
        projections: Projections,
        options: Mapping[str, str],
        every_s: float | None,
    ) -> None:
        self._lake = lake
        self._source = source
        self._projections = projections
        self._rows = self._unreadable = 0
        self._starts: dict[int, int] = {}
        self._error: LakeError | None = None
        self._query = self._started(options, every_s)

    def _started(self, options: Mapping[str, str], every_s: float | None) -> StreamingQuery:
        reader = self._lake.spark.readStream.format("kafka").options(**_OPTIONS, **options)
        try:
            records = reader.option("subscribe", self._source.topic).load()
        except AnalysisException as error:
            raise SparkMissingError(
                f"the session has no Kafka connector; begin it with spark.jars.packages={CONNECTOR}"
            ) from error
        checkpoint = self._lake.checkpoint(self._source.table, self._source.topic)
        writer = records.writeStream.foreachBatch(self._write_batch)
        writer = writer.option("checkpointLocation", checkpoint)
        if every_s is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{round(every_s * 1000)} milliseconds").start()

    def has_ended(self) -> bool:
        """Whether nothing is left to do; waits briefly. Raises the query's error."""
        try:
            return bool(self._query.awaitTermination(_POLL_S))
        except StreamingQueryException as error:
            raise self._error or _error_of(self._source.topic, error) from error
        finally:
            self._note_starts()

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
            for number, start in self._starts.items()
            if number in self._source.bounds
        )
        source = self._source
        return Ingested(source.table, source.topic, self._rows, self._unreadable, gone)

    def _write_batch(self, records: DataFrame, batch_id: int) -> None:
        # A batch has its query's own session, so no other writer is affected.
        for name, value in SETTINGS.items():
            records.sparkSession.conf.set(name, value)
        rows, counts = project(records, self._projections), Observation()
        counted = rows.observe(
            counts, F.count(F.lit(1)).alias("rows"), F.count("problems").alias("unreadable")
        )
        try:
            is_new = self._lake.add(counted, self._source.table, self._source.topic, batch_id)
        except LakeError as error:
            self._error = error  # Spark's own exception would hide it
            raise
        if is_new:
            self._rows += counts.get["rows"]
            self._unreadable += counts.get["unreadable"]

    def _note_starts(self) -> None:
        """Notes where the first batch of this call began, which only Spark's progress reports."""
        progress = [] if self._starts else self._query.recentProgress
        if progress and progress[0].sources:
            self._starts = _offsets(progress[0].sources[0].startOffset)

    def _first(self, number: int) -> int:
        first = self._source.bounds.get(number, (0, 0))[0]
        return max(self._starts.get(number, first), first)


def _offsets(text: str) -> dict[int, int]:
    """Parses `{"topic":{"0":12}}`, which PySpark 4.0 gives as Python's text of it."""
    pairs = re.findall(r"""["']([0-9]+)["']: ?([0-9]+)""", text)
    return {int(number): int(offset) for number, offset in pairs}


def _error_of(topic: str, error: StreamingQueryException) -> LinearRetryError:
    text = str(error).partition("=== Streaming Query ===")[0]
    reason = last_cause(text).rpartition("terminated with exception: ")[2]
    reason = reason.partition(" SQLSTATE:")[0]
    kind = BrokerError if "org.apache.kafka" in reason else LakeError
    return kind(f"{topic} cannot be ingested any further: {reason}")
