"""A micro-batch of a streaming query of Spark, its bad rows, and their places in Kafka."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any, NoReturn, TypeAlias

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.errors import UsageError
from linear_retry.records.record import Record
from linear_retry.records.text import sendable
from linear_retry.retry.clock import Clock
from linear_retry.scope import Partition
from linear_retry.spark.streaming.checkpoint_file import FailureCount

PLACE = ("topic", "partition", "offset")
Range: TypeAlias = tuple[str, int, int, int]
"""A topic, a partition, and the first and last offset in it."""

Handler: TypeAlias = Callable[[DataFrame, int], object]
"""As for Spark's `foreachBatch`: a batch is done if it returns, and has failed if it raises.

If it raises `BadRows`, only these rows have failed.
"""
COLUMNS = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key:string,value:binary>>",
}
"""Those of Kafka's source, which dead letters are made of."""
_POLL_S = 1.0


class BadRows(Exception):  # noqa: N818  (it names rows, and its cause is the error)
    """Raised by a handler of `foreach_batch`: these rows are bad, and it is done with all others.

    `rows`: a DataFrame with the columns `topic`, `partition` and `offset`, or tuples of these
    three. They have failed permanently with `cause`: `on_permanent` decides about them. If
    they are none, or not of the micro-batch, or `cause` is no `Exception`, the query fails with
    `UsageError`, and the micro-batch is not done.
    """

    __module__ = "linear_retry.spark"  # its public name, for logs and dead letters

    def __init__(self, rows: object, cause: Exception) -> None:
        super().__init__(rows, cause)
        self.rows = rows
        self.cause = cause

    def __str__(self) -> str:
        return f"rows of the micro-batch are bad: {self.cause!r}"


def named(session: SparkSession, rows: object) -> DataFrame:
    """The places that a handler names. Raises `UsageError` if they are none."""
    if isinstance(rows, DataFrame):
        missing = set(PLACE) - set(rows.columns)
        if missing:
            raise UsageError(f"a DataFrame that lacks the columns {', '.join(sorted(missing))}")
        return rows.select(*PLACE)
    try:
        places = [(str(topic), int(number), int(offset)) for topic, number, offset in rows]  # type: ignore[attr-defined]  # found out by doing it
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{rows!r:.80}; give a DataFrame, or tuples of topic, partition and offset"
        ) from error
    return session.createDataFrame(places, "topic string, partition int, `offset` bigint")


def ranges_of(rows: DataFrame) -> Sequence[Range]:
    """The offsets of each partition that has rows, in the order of dead letters."""
    ends = rows.groupBy("topic", "partition").agg(F.min("offset"), F.max("offset"))
    return sorted((row[0], row[1], row[2], row[3]) for row in ends.collect())


def split(ranges: Sequence[Range]) -> Sequence[Sequence[Range]]:
    """Both halves: of the partitions, or else of the offsets of one; none of a single offset."""
    if len(ranges) > 1:
        middle = len(ranges) // 2
        return ranges[:middle], ranges[middle:]
    for topic, partition, first, last in ranges:
        if first < last:
            middle = (first + last) // 2
            return [(topic, partition, first, middle)], [(topic, partition, middle + 1, last)]
    return ()


def within(ranges: Sequence[Range]) -> Column:
    """Whether a row is in consecutive ranges of a micro-batch."""
    topic, partition, first, _ = ranges[0]
    end_topic, end_partition, _, last = ranges[-1]
    place = F.struct(*PLACE)
    return place.between(_place(topic, partition, first), _place(end_topic, end_partition, last))


def _place(topic: str, partition: int, offset: int) -> Column:
    numbers = F.lit(partition).cast("int"), F.lit(offset).cast("bigint")
    return F.struct(*map(Column.alias, (F.lit(topic), *numbers), PLACE))


class SparkBatch:
    """One micro-batch, in the thread of its query, which does not continue until it is finished.

    `place` are the query's name and 0, and `number` is the batch's: topic, partition and offset of
    its events. `run` is the id of the query's run that it belongs to.

    PySpark pins that thread to the query's JVM thread. So `query.stop()` interrupts any JVM call
    from here, and Spark recognises the resulting exception as a stop.
    """

    def __init__(
        self, rows: DataFrame, number: int, handler: Handler, clock: Clock, *, bisects: bool
    ) -> None:
        """`bisects`: it may be halved. Raises `UsageError` unless a streaming query calls it."""
        self.number = number
        self._all = self._rows = rows
        self._bisects = bisects
        self._ranges: Sequence[Range] | None = None
        self._chosen: DataFrame | None = None
        self._handler = handler
        self._clock = clock
        self._java: Any = rows.sparkSession._jvm
        self._query = _query(rows.sparkSession)
        self._failures = FailureCount(rows.sparkSession, self._query)
        self.place: Partition = (f"spark:{self._query.name() or self._query.id()}", 0)
        self.run = str(self._query.runId())

    def attempt(self) -> object:
        """Calls the handler. Returns and raises what the handler does."""
        self._chosen = None
        return self._handler(self._rows, self.number)

    def choose(self, rows: object) -> None:
        """Makes `records` yield only these rows, until the next attempt.

        Raises `UsageError` if there are none, or they are not in it.
        """
        # The handler's rows are read again for each use; the places of the bad ones are few.
        bad = named(self._rows.sparkSession, rows).distinct().localCheckpoint()
        chosen = self._rows.join(F.broadcast(bad), list(PLACE), "left_semi")
        count, found = bad.count(), chosen.select(*PLACE).distinct().count()
        if not count or found < count:
            raise UsageError(f"{count} rows, of which {found} are in it; name rows of the batch")
        self._chosen = chosen

    def halves(self) -> Sequence[SparkBatch]:
        """Its two halves, in the order of its rows; none if it is one row, or not to be halved."""
        if not self._bisects:
            return ()
        if self._ranges is None:
            self._ranges = ranges_of(self._rows)
        return [self._part(ranges) for ranges in split(self._ranges)]

    def _part(self, ranges: Sequence[Range]) -> SparkBatch:
        part = copy(self)
        # Of all rows, not of those of this part: else filters would pile up in the plan.
        part._rows, part._ranges, part._chosen = self._all.where(within(ranges)), ranges, None
        return part

    def size(self) -> int:
        """The number of its rows."""
        return self._rows.count()

    def recall(self) -> tuple[int, int] | None:
        """How often it had failed when its query ended, and when first (UTC ms); None if never."""
        return self._failures.read(self.number)

    def note(self, failures: int, first_failure_ms: int) -> None:
        """Keeps how often it has failed, and when first, for the next run of its query."""
        self._failures.write(self.number, failures, first_failure_ms)

    def wait(self, seconds: float) -> None:
        """Waits at least that long. If the query is stopped meanwhile, calls `end` at once."""
        until_s = self._clock.now_s() + seconds
        while (left_s := until_s - self._clock.now_s()) > 0:
            # Python's own sleep would delay `query.stop()` until its end.
            self._java.java.lang.Thread.sleep(math.ceil(min(left_s, _POLL_S) * 1000))
            if self.is_stopping():
                self.end()

    def is_stopping(self) -> bool:
        """Whether the query is being stopped: failures are then meaningless."""
        return not self._query.isActive()

    def end(self) -> NoReturn:
        """Raises what a query that is being stopped takes for its end."""
        # The handler may have consumed the stop's interrupt. Spark knows that an
        # InterruptedException is not a failure; any other exception would fail the query.
        thread = self._java.java.lang.Thread
        thread.currentThread().interrupt()
        thread.sleep(1)
        raise AssertionError("an interrupted thread slept: a bug; please report it")

    def records(self) -> Iterator[Record]:
        """Yields its rows as read from Kafka, in order per partition, few in memory at a time."""
        rows = self._rows if self._chosen is None else self._chosen
        chosen = rows.select(
            *(name for name in COLUMNS if name != "timestamp"),
            F.unix_millis("timestamp").alias("timestamp_ms"),
        )
        # The handler may have repartitioned the rows.
        in_order = chosen.orderBy("topic", "partition", "offset")
        return map(_record, in_order.toLocalIterator())


def _query(session: SparkSession) -> Any:
    query_id = session.sparkContext.getLocalProperty("sql.streaming.queryId")
    if query_id is None:
        raise UsageError(
            "foreach_batch: this was not called by a streaming query in a thread of its own; give "
            "it to writeStream.foreachBatch(...), and leave PYSPARK_PIN_THREAD as it is"
        )
    java: Any = session._jvm
    # `session.streams` does not have it: the batch's session is a copy of the query's.
    active = session._jsparkSession.sharedState().activeStreamingQueries()
    return active[java.java.util.UUID.fromString(query_id)]


def _record(row: Row) -> Record:
    headers, escaped = sendable((name, _bytes(value)) for name, value in row["headers"] or ())
    return Record(
        topic=row["topic"],
        partition=row["partition"],
        offset=row["offset"],
        timestamp_ms=row["timestamp_ms"],
        key=_bytes(row["key"]),
        value=_bytes(row["value"]),
        headers=headers,
        escaped_headers=escaped,
    )


def _bytes(content: bytearray | None) -> bytes | None:
    return None if content is None else bytes(content)
