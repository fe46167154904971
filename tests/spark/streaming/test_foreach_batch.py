"""A stream of Spark waits, in order, while what it writes to is down."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from pyspark.cloudpickle import dumps
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from typer.testing import CliRunner

from linear_retry import (
    ConfigurationError,
    DeadLetters,
    Event,
    Journal,
    RetryAfter,
    Rule,
    Strategy,
    UsageError,
    events,
)
from linear_retry.cli import app
from linear_retry.demo.service import Cancel, Outage, PaymentService
from linear_retry.journal.entry import Entry, read_entry
from linear_retry.retry.clock import SystemClock
from linear_retry.spark import BadRows, ForeachBatch, foreach_batch
from tests.conftest import TopicFactory
from tests.kafka_operations import Record
from tests.patience import PATIENCE_S
from tests.postgres import Postgres
from tests.real_kafka import RealKafka

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("interpreted")]

_now_s = SystemClock().now_s


class _DownError(Exception):
    pass


def _stream(spark: SparkSession, kafka: RealKafka, topic: str, **options: str) -> DataFrame:
    settings = {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "kafka.fetch.max.wait.ms": "10",
        "includeHeaders": "true",
    }
    return spark.readStream.format("kafka").options(**settings, **options).load()


@contextmanager
def _running(
    rows: DataFrame, batches: ForeachBatch, checkpoint: Path, name: str = "charge"
) -> Iterator[StreamingQuery]:
    query = _start(rows, batches, checkpoint, name)
    try:
        yield query
    finally:
        query.stop()


def _start(rows: DataFrame, batches: ForeachBatch, checkpoint: Path, name: str) -> StreamingQuery:
    writer = rows.writeStream.foreachBatch(batches).queryName(name)
    return writer.option("checkpointLocation", str(checkpoint)).start()


def test_stopping_the_query_ends_an_hour_of_waiting(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """`query.stop()` is enough, and is no failure; started again, the same batch comes, and its
    failures are counted on."""
    name, happened, attempts = topic(), list[Event](), list[tuple[int, int]]()
    waiting = threading.Event()

    def handler(rows: DataFrame, batch_id: int) -> None:
        attempts.append((batch_id, rows.count()))
        raise _DownError

    def on_event(event: Event) -> None:
        happened.append(event)
        if isinstance(event, events.CircuitOpened):
            waiting.set()

    kafka.produce(name, [(0, None, b"a", ()), (0, None, b"b", ())])
    batches = foreach_batch(
        handler,
        strategy=Strategy(["1h", "1h"]),
        transient=_DownError,
        on_exhausted="stop",
        on_permanent="stop",
        listeners=[on_event],
    )
    for _ in range(2):
        waiting.clear()
        with _running(_stream(spark, kafka, name), batches, tmp_path / "c", "an-hour") as query:
            assert waiting.wait(PATIENCE_S), query.status
            assert "open" == batches.circuit.state
            query.stop()
            assert not query.isActive
            assert query.exception() is None
    assert [(0, 2), (0, 2)] == attempts
    once = ["Assigned", "CircuitOpened", "CircuitClosed", "Revoked"]
    assert once * 2 == [type(event).__name__ for event in happened]
    opened = [event for event in happened if isinstance(event, events.CircuitOpened)]
    assert [("spark:an-hour", 0, 0, failures) for failures in (1, 2)] == [
        (each.topic, each.partition, each.offset, each.failures) for each in opened
    ]


def test_what_a_stop_interrupts_is_no_failure(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """The handler's own job is cancelled, and it raises whatever it likes: the batch is not given
    up for that, and the query has not failed."""
    name, happened, begun = topic(), list[Event](), threading.Event()

    def handler(rows: DataFrame, batch_id: int) -> None:
        begun.set()
        try:
            rows.sparkSession.range(0, 10**13, 1, 2).selectExpr("sum(id % 7)").collect()
        except Exception as error:
            raise ValueError("it did not work") from error

    kafka.produce(name, [(0, None, b"a", ())])
    batches = foreach_batch(
        handler,
        strategy=Strategy([]),
        transient=_DownError,
        on_exhausted="stop",
        on_permanent="skip",
        listeners=[happened.append],
    )
    with _running(_stream(spark, kafka, name), batches, tmp_path / "c") as query:
        assert begun.wait(PATIENCE_S), query.status
        query.stop()
        assert query.exception() is None
    assert ["Assigned", "Revoked"] == [type(event).__name__ for event in happened]
    assert [] == list((tmp_path / "c/commits").iterdir())


def test_an_http_service_that_goes_down(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """Twice, once by refusing and once by 503: every row arrives, in order, and no attempt is made
    before its time, nor one of a later micro-batch meanwhile."""
    name, timeline = topic(partitions=2), list[tuple[str, float]]()
    orders = [(number % 2, None, b"order-%d" % number, ()) for number in range(12)]
    written = kafka.produce(name, orders)
    outages = (Outage(3, "refused", 0), Outage(9, "unavailable", 0))
    begun: list[Callable[[], None]] = []

    def until_ended(_: float, end: Callable[[], None]) -> Cancel:
        begun.append(end)
        return lambda: None

    with (
        PaymentService(outages, frozenset(), schedule=until_ended) as service,
        httpx.Client(trust_env=False) as http,
    ):

        def charge(rows: DataFrame, batch_id: int) -> None:
            timeline.append(("attempt", _now_s()))
            for row in rows.orderBy("partition", "offset").collect():
                payment = {"order": f"{row['partition']}@{row['offset']}"}
                answer = http.post(service.url, json=payment)
                if answer.status_code == 503:
                    raise RetryAfter(0.3)

        def on_event(event: Event) -> None:
            if isinstance(event, events.CircuitOpened | events.ProbeFailed):
                timeline.append(("may be attempted", _now_s() + event.delay_s))
            if isinstance(event, events.ProbeFailed):
                begun.pop()()

        batches = foreach_batch(
            charge,
            strategy=Strategy([0.2]),
            transient=httpx.TransportError,
            on_exhausted="repeat",
            on_permanent="stop",
            listeners=[on_event],
        )
        stream = _stream(spark, kafka, name, maxOffsetsPerTrigger="6")
        with _running(stream, batches, tmp_path / "c") as query:
            query.processAllAvailable()
        accepted = [
            tuple(map(int, receipt.order_id.split("@")))
            for receipt in service.receipts
            if receipt.status == 200
        ]
    assert {503, 200} == {receipt.status for receipt in service.receipts}
    once = list(dict.fromkeys(accepted))
    assert sorted(written) == sorted(once)
    assert once == sorted(once, key=lambda place: (place[1] // 3, place))
    assert [at_s for _, at_s in timeline] == sorted(at_s for _, at_s in timeline)
    assert 4 == [kind for kind, _ in timeline].count("may be attempted")


def test_a_database_that_goes_down(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """PostgreSQL is stopped, and started again: each row is in its table once, in order."""
    name, waits = topic(), threading.Semaphore(0)

    def on_event(event: Event) -> None:
        if isinstance(event, events.CircuitOpened | events.ProbeFailed):
            waits.release()

    with Postgres() as postgres:
        with psycopg.connect(postgres.url) as connection:
            connection.execute('CREATE TABLE orders (id bigserial, "offset" bigint)')

        def insert(rows: DataFrame, batch_id: int) -> None:
            places = [(row["offset"],) for row in rows.orderBy("offset").collect()]
            with psycopg.connect(postgres.url) as connection:
                connection.cursor().executemany('INSERT INTO orders ("offset") VALUES (%s)', places)

        batches = foreach_batch(
            insert,
            strategy=Strategy([0.1]),
            transient=psycopg.OperationalError,
            on_exhausted="repeat",
            on_permanent="stop",
            listeners=[on_event],
        )
        stream = _stream(spark, kafka, name, maxOffsetsPerTrigger="4")
        kafka.produce(name, [(0, None, b"", ())] * 4)
        with _running(stream, batches, tmp_path / "c") as query:
            query.processAllAvailable()
            postgres.stop()
            kafka.produce(name, [(0, None, b"", ())] * 6)
            for _ in range(2):
                assert waits.acquire(timeout=PATIENCE_S)
            postgres.start()
            query.processAllAvailable()
        with psycopg.connect(postgres.url) as connection:
            found = connection.execute('SELECT "offset" FROM orders ORDER BY id').fetchall()
    assert [(offset,) for offset in range(10)] == found


def test_an_exhausted_batch_becomes_letters_and_the_stream_goes_on(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """Each row, byte for byte and in order, is a letter that the command line reads; the journal
    tells of it; and the rows after it are handled."""
    name, letters, journal = topic(partitions=2), topic(partitions=2), topic()
    headers = (("trace", b"\xff\x00"), ("trace", None))
    bad: list[Record] = [
        (n % 2, b"k%d" % n if n else None, b"\xfe%d" % n, headers) for n in range(6)
    ]
    kafka.produce(name, bad)
    handled: list[int] = []

    def handler(rows: DataFrame, batch_id: int) -> None:
        if batch_id == 0:
            # The letters are of the rows as they came, whatever the handler has made of them.
            rows.repartition(3).count()
            raise _DownError("no stock")
        handled.append(rows.count())

    with (
        foreach_batch(
            handler,
            strategy=Strategy([0.1, 0.1]),
            transient=_DownError,
            dead_letters=letters,
            config={"bootstrap.servers": kafka.bootstrap, "group.id": "billing"},
            source=(stream := _stream(spark, kafka, name)),
            listeners=[Journal(journal)],
        ) as batches,
        _running(stream, batches, tmp_path / "c") as query,
    ):
        query.processAllAvailable()
        kafka.produce(name, [(0, None, b"good", ())])
        query.processAllAvailable()
    assert [1] == handled
    sent = kafka.read(letters)
    in_order = sorted(bad, key=lambda record: record[0])
    assert [record[:3] for record in in_order] == [
        (each.partition(), each.key(), each.value()) for each in sent
    ]
    assert [list(headers)] * 6 == [list(each.headers() or ())[:2] for each in sent]
    command = ["dlq", "list", letters, "--bootstrap", kafka.bootstrap, "--json"]
    output = CliRunner().invoke(app, command)
    assert 0 == output.exit_code, output.stderr
    listed = [json.loads(line) for line in output.stdout.splitlines()]
    assert [("billing", "exhausted", 3)] * 6 == [
        (each["group_id"], each["reason"], each["failures"]) for each in listed
    ]
    entries = [read_entry(record.value()) for record in kafka.read(journal)]
    kinds = [type(each.event).__name__ for each in entries if isinstance(each, Entry)]
    waits = ["Assigned", "CircuitOpened", "ProbeFailed"]
    assert [*waits, *["DeadLettered"] * 6, "CircuitClosed", "Stopped"] == kinds


def test_bad_rows_that_are_named_alone_become_letters(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """By a DataFrame or by their places; a row of another batch, or none, ends the query."""
    name, letters = topic(partitions=2), topic()
    kafka.produce(name, [(n % 2, None, b"bad" if n in (1, 4) else b"%d" % n, ()) for n in range(6)])
    named: list[Any] = []

    def handler(rows: DataFrame, batch_id: int) -> None:
        bad = rows.where("string(value) = 'bad'")
        raise BadRows(named.pop() if named else bad, ValueError("no number"))

    batches = foreach_batch(
        handler,
        strategy=Strategy([0.1]),
        transient=_DownError,
        dead_letters=letters,
        config={"bootstrap.servers": kafka.bootstrap, "group.id": "billing"},
    )
    with _running(_stream(spark, kafka, name), batches, tmp_path / "c") as query:
        query.processAllAvailable()
        assert [b"bad"] * 2 == [each.value() for each in kafka.read(letters)]
        kafka.produce(name, [(0, None, b"7", ()), (0, None, b"8", ())])
        named.append([(name, 0, 4)])
        query.processAllAvailable()
        assert [b"bad", b"bad", b"8"] == [each.value() for each in kafka.read(letters)]
        named.append([(name, 0, 0)])
        kafka.produce(name, [(0, None, b"9", ())])
        with pytest.raises(StreamingQueryException, match="1 rows, of which 0 are in it"):
            query.processAllAvailable()


def test_bad_rows_are_found_by_halving(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """They become letters, in order and with their own errors; all other rows are handled, and the
    query goes on. An outage meanwhile is waited out."""
    name, letters = topic(partitions=2), topic()
    values = [b"bad" if n in (1, 4, 5) else b"%d" % n for n in range(10)]
    kafka.produce(name, [(n % 2, None, value, ()) for n, value in enumerate(values)])
    handled, down = set[bytes](), [_DownError()]

    def handler(rows: DataFrame, batch_id: int) -> None:
        found = [bytes(row["value"]) for row in rows.select("value").collect()]
        if len(found) == 1 and down:
            raise down.pop()
        if b"bad" in found:
            raise ValueError(f"{found.count(b'bad')} of {len(found)}")
        handled.update(found)

    batches = foreach_batch(
        handler,
        strategy=Strategy([0.1]),
        transient=_DownError,
        on_permanent="bisect",
        idempotent="row",
        dead_letters=letters,
        config={"bootstrap.servers": kafka.bootstrap, "group.id": "billing"},
    )
    with _running(_stream(spark, kafka, name), batches, tmp_path / "c") as query:
        query.processAllAvailable()
        kafka.produce(name, [(0, None, b"more", ())])
        query.processAllAvailable()
    sent = [dict(each.headers() or ()) for each in kafka.read(letters)]
    origin = [(each["retry-original-partition"], each["retry-original-offset"]) for each in sent]
    assert [(b"0", b"2"), (b"1", b"0"), (b"1", b"2")] == origin
    assert {b"1 of 1"} == {each["retry-exception-message"] for each in sent}
    assert {*values, b"more"} - {b"bad"} == handled
    assert [] == down


def test_the_query_fails_with_the_cause_where_that_is_chosen(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """`"stop"`: what failed, how often, and what it was; nothing is noted as done."""
    name = topic()
    kafka.produce(name, [(0, None, b"", ())])

    def handler(rows: DataFrame, batch_id: int) -> None:
        raise _DownError("no stock")

    batches = foreach_batch(
        handler,
        strategy=Strategy([0.1]),
        transient=_DownError,
        on_exhausted="stop",
        on_permanent="stop",
    )
    query = _start(_stream(spark, kafka, name), batches, tmp_path / "c", "fails")
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination(int(PATIENCE_S))
    assert "_DownError: no stock" in str(caught.value)
    assert "spark:fails, micro-batch 0: failure 2 was _DownError" in str(caught.value)
    assert [] == list((tmp_path / "c/commits").iterdir())


def test_a_stream_without_kafkas_columns_is_refused(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """With the columns that it lacks: as it is made, where it is given the stream; else with the
    first micro-batch, before the handler is called."""
    kafka.produce(name := topic(), [(0, None, b"", ())])
    stream = _stream(spark, kafka, name).selectExpr("topic", "partition", "string(value) value")
    lacking = r"Kafka's own columns: offset \(missing\), .*, value \(string\), headers \(missing\);"
    options: dict[str, Any] = {
        "strategy": Strategy([1]),
        "transient": _DownError,
        "dead_letters": "orders.dlq",
        "config": {"bootstrap.servers": kafka.bootstrap, "group.id": "billing"},
    }
    with pytest.raises(ConfigurationError, match=lacking):
        foreach_batch(_never, source=stream, **options)
    query = _start(stream, foreach_batch(_never, **options), tmp_path / "c", "lacks")
    with pytest.raises(StreamingQueryException, match=lacking):
        query.awaitTermination(int(PATIENCE_S))


def test_what_cannot_work_is_refused(spark: SparkSession) -> None:
    """Each with what to do about it."""
    plain: dict[str, Any] = {"strategy": Strategy([1]), "transient": _DownError}
    stops = plain | {"on_exhausted": "stop", "on_permanent": "stop"}

    async def later(rows: DataFrame, batch_id: int) -> None: ...

    for handler in (later, 5):
        with pytest.raises(UsageError, match="handler="):
            foreach_batch(handler, **stops)  # type: ignore[arg-type]  # the point of it
    by_topic = [Rule([1], errors=_DownError, topics="orders")]
    with pytest.raises(ConfigurationError, match="a micro-batch may be of several topics"):
        foreach_batch(_never, **stops | {"strategy": by_topic})
    with pytest.raises(ConfigurationError, match="dead_letters is missing"):
        foreach_batch(_never, **plain)
    with pytest.raises(ConfigurationError, match=r"group\.id=None"):
        foreach_batch(_never, dead_letters="orders.dlq", **plain)
    with pytest.raises(ConfigurationError, match=r'"bisect", idempotent=None: halves .* with '):
        foreach_batch(_never, on_permanent="bisect", dead_letters="orders.dlq", **plain)
    letters = DeadLetters("orders.dlq", transactional=True)
    config = {"group.id": "g", "bootstrap.servers": "127.0.0.1:9"}
    with pytest.raises(ConfigurationError, match="transactional=True: a query's progress"):
        foreach_batch(_never, dead_letters=letters, config=config, **plain)
    batches = foreach_batch(_never, **stops)
    with pytest.raises(UsageError, match="not called by a streaming query"):
        batches(spark.range(1), 0)
    with pytest.raises(UsageError, match="use a classic session"):
        dumps(batches)  # type: ignore[no-untyped-call]  # as Spark Connect does


def _never(rows: DataFrame, batch_id: int) -> None:
    raise AssertionError("it was to be refused")
