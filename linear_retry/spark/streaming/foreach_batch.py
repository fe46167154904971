"""A `foreachBatch` function that waits, in order, while its target is down."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NoReturn, Self, TypeAlias
from uuid import uuid4

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from linear_retry.consumer.letters.publisher import (
    AckWait,
    DeadLetterPublisher,
    PlainDelivery,
    Stop,
)
from linear_retry.consumer.operations.monitor import Monitor, bind_listeners
from linear_retry.consumer.runners.run_handler import check_handler
from linear_retry.consumer.settings.checks import (
    Strategies,
    answer_within_s,
    check_listeners,
    check_own_topics,
    chosen_strategy,
    is_transient,
    policy_of,
)
from linear_retry.consumer.settings.consumer_config import Dependencies, this_process
from linear_retry.consumer.settings.dead_letters import DeadLetters
from linear_retry.consumer.settings.rules import Rules
from linear_retry.consumer.settings.values import Errors
from linear_retry.errors import ConfigurationError, UsageError
from linear_retry.events import Listener
from linear_retry.journal.journal import Journal
from linear_retry.kafka.consumer.settings import ConsumerSettings, consumer_settings
from linear_retry.kafka.producers.acknowledged import AcknowledgedProducer
from linear_retry.kafka.producers.settings import producer_config
from linear_retry.log.client_log import with_log
from linear_retry.retry.circuits import Circuits, CircuitView
from linear_retry.retry.clock import Clock
from linear_retry.retry.decision import OnExhausted, OnPermanent, RetrySettings
from linear_retry.spark.streaming.batch import COLUMNS, Handler, SparkBatch
from linear_retry.spark.streaming.runner import MicroBatchRunner

OnPermanentRows: TypeAlias = OnPermanent | Literal["bisect"]

_CLOSE_TIMEOUT_S = 10.0
_WITHOUT_BROKERS = {"group.id": "foreach_batch", "bootstrap.servers": "nobody asks it"}


def foreach_batch(
    handler: Handler,
    *,
    strategy: Strategies,
    transient: Errors | None = None,
    dead_letters: str | DeadLetters | None = None,
    on_exhausted: OnExhausted = "dead-letter",
    on_permanent: OnPermanentRows = "dead-letter",
    idempotent: Literal["row"] | None = None,
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

    `on_permanent="bisect"` halves a micro-batch that fails permanently, until the bad rows stand
    alone and become dead letters. All halves have its `batch_id`, so it needs `idempotent="row"`:
    the handler recognises each row that it has handled, and does not look at `batch_id` for that.

    Raises `ConfigurationError` with key, value, rule and remedy, and `UsageError` for a handler
    that cannot work. Needs a classic session, not one of Spark Connect.
    """
    _check_handler(handler)
    bisects = on_permanent == "bisect"
    if bisects and idempotent != "row":
        raise ConfigurationError(
            f'on_permanent="bisect", idempotent={idempotent!r}: halves of a micro-batch are '
            "attempted one by one with the same batch_id, and with rows that are done; give "
            'idempotent="row" if the handler recognises rows, and no batch_id, that it has handled'
        )
    dependencies = Dependencies()
    runner = _micro_batch_runner(
        config or {},
        strategy=strategy,
        transient=transient,
        dead_letters=dead_letters,
        on_exhausted=on_exhausted,
        on_permanent="dead-letter" if on_permanent == "bisect" else on_permanent,
        listeners=listeners,
        dependencies=dependencies,
    )
    if source is not None and runner.needs_dead_letters:
        check_columns(source.schema)
    return ForeachBatch(handler, runner, dependencies.clock, bisects=bisects)


class ForeachBatch:
    """The function that one query's `writeStream.foreachBatch` calls; `foreach_batch` makes it.

    A context manager: leaving it closes.
    """

    def __init__(
        self,
        handler: Handler,
        runner: MicroBatchRunner,
        clock: Clock,
        *,
        bisects: bool = False,
    ) -> None:
        self._bisects = bisects
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
            batch = SparkBatch(rows, batch_id, self._handler, self._clock, bisects=self._bisects)
            self._runner.handle(batch)
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
        if not self._in_use.acquire(timeout=_CLOSE_TIMEOUT_S):
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
        for name, wanted in COLUMNS.items()
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


def _micro_batch_runner(
    config: Mapping[str, Any],
    *,
    strategy: Strategies,
    transient: Errors | None,
    dead_letters: str | DeadLetters | None,
    on_exhausted: OnExhausted,
    on_permanent: OnPermanent,
    listeners: Sequence[Listener],
    dependencies: Dependencies,
) -> MicroBatchRunner:
    """Checks everything and builds the runner, without I/O. Raises `ConfigurationError`."""
    given = chosen_strategy(
        strategy,
        has_transient=transient is not None,
        repeats=on_exhausted == "repeat",
        by_topic=False,
    )
    rules = given if isinstance(given, Rules) else None
    policy, letters = policy_of(given, on_exhausted, on_permanent, dead_letters)
    listeners = check_listeners(listeners)
    journals = [listener for listener in listeners if isinstance(listener, Journal)]
    check_own_topics(letters, journals)
    retry_settings = RetrySettings(
        policy, is_transient(transient, rules), "consumer", dependencies.rng, rules=rules
    )
    config = with_log(config)
    if letters is None and not journals:
        config = {**_WITHOUT_BROKERS, **config}
    settings = consumer_settings(config)
    emit = Monitor(listeners, dependencies.clock.utc_ms).emit
    publisher = None if letters is None else _publisher(letters, settings, dependencies, emit)
    process = this_process(settings.config)
    context = dependencies.journal_context(settings, str(uuid4()), process, _CLOSE_TIMEOUT_S)
    bind_listeners(listeners, context)
    return MicroBatchRunner(
        retry_settings,
        Circuits(settings.group_id),
        emit,
        dependencies.clock,
        settings.group_id,
        publisher,
        journals,
    )


def _publisher(
    letters: DeadLetters, settings: ConsumerSettings, dependencies: Dependencies, emit: Listener
) -> Callable[[Stop], DeadLetterPublisher]:
    if letters.transactional:
        raise ConfigurationError(
            "DeadLetters transactional=True: a query's progress is in its checkpoint, which cannot "
            "be committed with a letter; leave it out, and deduplicate by retry-id"
        )
    keys = producer_config(settings, letters.config)
    producer = AcknowledgedProducer(letters.topic, keys, dependencies.producer)

    def publisher(stop: Stop) -> DeadLetterPublisher:
        wait = AckWait(dependencies.clock, {}, stop, answer_within_s=answer_within_s(keys))
        return DeadLetterPublisher(PlainDelivery(producer, wait), wait, letters.oversized, emit)

    return publisher
