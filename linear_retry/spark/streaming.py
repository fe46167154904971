"""A `foreachBatch` function that waits, in order, while its target is down."""

from __future__ import annotations

import inspect
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, Self, TypeAlias

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its usual name)
from pyspark.sql.types import StructType

from linear_retry.consumer.config.checks import Transient
from linear_retry.consumer.config.consumer_config import Dependencies
from linear_retry.consumer.dead_letters.settings import DeadLetters
from linear_retry.consumer.micro_batches import wiring
from linear_retry.consumer.micro_batches.runner import MicroBatchRunner
from linear_retry.consumer.micro_batches.wiring import CLOSE_TIMEOUT_S
from linear_retry.consumer.runners.handler_checks import check_handler
from linear_retry.errors import ConfigurationError, UsageError
from linear_retry.events import Listener
from linear_retry.records.record import Record
from linear_retry.records.text import sendable
from linear_retry.retry.circuits import CircuitView
from linear_retry.retry.clock import Clock
from linear_retry.retry.policy import OnExhausted, OnPermanent
from linear_retry.scope import Partition
from linear_retry.strategy.delays import Element
from linear_retry.strategy.strategy import Strategy

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


def foreach_batch(
    handler: Handler,
    *,
    strategy: Strategy | Sequence[Element],
    transient: Transient,
    dead_letters: str | DeadLetters | None = None,
    on_exhausted: OnExhausted = "dead-letter",
    on_permanent: OnPermanent = "dead-letter",
    config: Mapping[str, Any] | None = None,
    source: DataFrame | None = None,
    listeners: Sequence[Listener] = (),
) -> ForeachBatch:
    """Makes `handler(rows, batch_id)` a function for `writeStream.foreachBatch` that retries it.

    The settings are those of `LinearConsumer`, with a micro-batch in place of a message: its query
    goes no further until it is done, dead-lettered (each row a letter) or skipped; with `"stop"`
    the query fails with the cause. `config` are librdkafka's keys for dead letters and journals:
    brokers, security, and `group.id`, which the dead letters name. The columns of `source`, the
    streaming DataFrame, are checked now; without it, with the first micro-batch.

    Raises `ConfigurationError` with key, value, rule and remedy, and `UsageError` for a handler
    that cannot work. Needs a classic session, not one of Spark Connect.
    """
    _check_handler(handler)
    dependencies = Dependencies()
    runner = wiring.micro_batch_runner(
        config or {},
        strategy=strategy,
        transient=transient,
        dead_letters=dead_letters,
        on_exhausted=on_exhausted,
        on_permanent=on_permanent,
        listeners=listeners,
        dependencies=dependencies,
    )
    if source is not None and runner.needs_dead_letters:
        check_columns(source.schema)
    return ForeachBatch(handler, runner, dependencies.clock)


class ForeachBatch:
    """The function that one query's `writeStream.foreachBatch` calls; `foreach_batch` makes it.

    A context manager: leaving it closes.
    """

    def __init__(
        self,
        handler: Handler,
        runner: MicroBatchRunner,
        clock: Clock,
    ) -> None:
        self._handler = handler
        self._runner = runner
        self._clock = clock
        self._in_use = threading.Lock()
        self._closed = False

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Handles a micro-batch: returns once it is done, dead-lettered or skipped.

        Raises what makes the query fail: `ExhaustedError` and `PermanentError` where `"stop"` was
        chosen, `ConfigurationError` for a stream without Kafka's columns, `UnknownTopicError` and
        `BrokerError` where no letters can be sent at the start of a run.
        """
        if not self._in_use.acquire(blocking=False):
            raise UsageError("foreach_batch: another query uses it; create one for each query")
        try:
            if self._closed:
                raise UsageError("foreach_batch: it is closed; create another one")
            if self._runner.needs_dead_letters:
                check_columns(rows.schema)
            self._runner.handle(SparkBatch(rows, batch_id, self._handler, self._clock))
        finally:
            self._in_use.release()

    @property
    def circuit(self) -> CircuitView:
        """The circuit now: its state, until when it waits, and why. For any thread."""
        return self._runner.circuit

    def close(self) -> None:
        """Writes the end to the journal, and waits for that a moment. Idempotent.

        For good, and once the query is stopped: raises `UsageError` while a micro-batch is in hand.
        """
        if not self._in_use.acquire(timeout=CLOSE_TIMEOUT_S):
            raise UsageError("foreach_batch: a query uses it; stop the query first")
        try:
            self._closed = True
            self._runner.close()
        finally:
            self._in_use.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise UsageError(
            "foreach_batch: it cannot go to another process, where Spark Connect would run it: "
            "its events and its circuit would be out of reach; use a classic session"
        )


def _check_handler(handler: Handler) -> None:
    if inspect.iscoroutinefunction(handler):
        raise UsageError(f"handler={handler!r}: it would never be awaited; give a plain function")
    check_handler(handler, "a DataFrame and a batch's number")


def check_columns(schema: StructType) -> None:
    """Raises `ConfigurationError` if dead letters cannot be made of such rows."""
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    other = [
        f"{name} ({found.get(name, 'missing')})"
        for name, wanted in _COLUMNS.items()
        if found.get(name) != wanted
    ]
    if other:
        raise ConfigurationError(
            f"foreach_batch: the stream lacks Kafka's own columns: {', '.join(other)}; dead "
            "letters need each row as it came from Kafka: read it with "
            '.option("includeHeaders", "true"), keep these columns unchanged, and put parsed '
            'values into others; or choose other values than "dead-letter" for on_exhausted and '
            "on_permanent"
        )


class SparkBatch:
    """A `MicroBatch` in the thread of its query.

    PySpark pins that thread to the query's JVM thread. So `query.stop()` interrupts any JVM call
    from here, and Spark recognises the resulting exception as a stop.
    """

    def __init__(self, rows: DataFrame, number: int, handler: Handler, clock: Clock) -> None:
        """Raises `UsageError` unless a streaming query is the caller."""
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
            # Python's own sleep would delay `query.stop()` until its end.
            self._java.java.lang.Thread.sleep(math.ceil(min(left_s, _POLL_S) * 1000))
            if self.is_stopping():
                self.end()

    def is_stopping(self) -> bool:
        return not self._query.isActive()

    def end(self) -> NoReturn:
        # The handler may have consumed the stop's interrupt. Spark knows that an
        # InterruptedException is not a failure; any other exception would fail the query.
        thread = self._java.java.lang.Thread
        thread.currentThread().interrupt()
        thread.sleep(1)
        raise AssertionError("an interrupted thread slept: a bug; please report it")

    def records(self) -> Iterator[Record]:
        chosen = self._rows.select(
            *(name for name in _COLUMNS if name != "timestamp"),
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
