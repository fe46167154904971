"""A micro-batch of Spark's: attempted, waited with, and read row by row."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeAlias

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its usual name)
from pyspark.sql.types import StructType

from linear_retry.errors import ConfigurationError, UsageError
from linear_retry.records.header_text import sendable
from linear_retry.records.record import Record
from linear_retry.retry.clock import Clock
from linear_retry.scope import Partition

Handler: TypeAlias = Callable[[DataFrame, int], object]
"""As for Spark's `foreachBatch`: a batch is done if it returns, and has failed if it raises."""

_POLL_S = 1.0
_COLUMNS = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key:string,value:binary>>",
}


def check_columns(schema: StructType) -> None:
    """Raises `ConfigurationError` if dead letters cannot be made of such rows."""
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    lacking = [name for name in _COLUMNS if name not in found]
    other = [
        f"{name} ({found[name]})"
        for name, wanted in _COLUMNS.items()
        if found.get(name, wanted) != wanted
    ]
    if lacking or other:
        parts = [f"lacks {', '.join(lacking)}"] * bool(lacking)
        parts += [f"has another type of {', '.join(other)}"] * bool(other)
        raise ConfigurationError(
            f"foreach_batch: the stream {' and '.join(parts)}, and dead letters need each row as "
            'it came from Kafka: read it with .option("includeHeaders", "true"), keep these '
            "columns as they are, and put what you make of them beside; or choose otherwise than "
            '"dead-letter" in on_exhausted and on_permanent'
        )


class SparkBatch:
    """A `MicroBatch` in the thread of its query.

    PySpark ties that thread to the JVM's own of the query. So whatever is called in the JVM from
    here is interrupted by `query.stop()`, and what that raises is known to Spark as a stop.
    """

    def __init__(self, rows: DataFrame, number: int, handler: Handler, clock: Clock) -> None:
        """Raises `UsageError` if no query is the caller."""
        self.number = number
        self._rows = rows
        self._handler = handler
        self._clock = clock
        self._java: Any = rows.sparkSession._jvm
        self._query = _query(rows.sparkSession)
        self.place: Partition = (f"spark:{self._query.name() or self._query.id()}", 0)
        self.run = str(self._query.runId())

    def attempt(self) -> object:
        return self._handler(self._rows, self.number)

    def wait(self, seconds: float) -> None:
        until_s = self._clock.now_s() + seconds
        while (left_s := until_s - self._clock.now_s()) > 0:
            # Python's own sleep would hold up `query.stop()` until its end.
            self._java.java.lang.Thread.sleep(math.ceil(min(left_s, _POLL_S) * 1000))
            if self.is_stopping():
                self.end()

    def is_stopping(self) -> bool:
        return not self._query.isActive()

    def end(self) -> NoReturn:
        # The stop's own interrupt may have been spent by the handler. Of an InterruptedException
        # Spark knows that nothing has failed; any other exception would be the query's.
        thread = self._java.java.lang.Thread
        thread.currentThread().interrupt()
        thread.sleep(1)
        raise AssertionError("an interrupted thread slept: a bug; please report it")

    def records(self) -> Iterator[Record]:
        chosen = self._rows.select(
            *(name for name in _COLUMNS if name != "timestamp"),
            F.unix_millis("timestamp").alias("timestamp_ms"),
        )
        # The handler may have had the rows repartitioned before it.
        in_order = chosen.orderBy("topic", "partition", "offset")
        return map(_record, in_order.toLocalIterator())


def _query(session: SparkSession) -> Any:
    """The JVM's query of this thread."""
    query_id = session.sparkContext.getLocalProperty("sql.streaming.queryId")
    if query_id is None:
        raise UsageError(
            "foreach_batch: this was not called by a streaming query in a thread of its own; give "
            "it to writeStream.foreachBatch(...), and leave PYSPARK_PIN_THREAD as it is"
        )
    java: Any = session._jvm
    # `session.streams` does not know it: the batch's session is a copy of the query's.
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
