"""Messages reach Kafka, or the store, or their senders learn that they are in neither."""

import ctypes
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
import pytest
from confluent_kafka import KafkaException
from sqlalchemy import select, text

from linear_retry.errors import ConfigurationError, StoreVersionError, UsageError
from linear_retry.outbox import Outbox, OutboxMessage
from linear_retry.store.database import Database
from linear_retry.store.header_bytes import read
from linear_retry.store.schema import lane, message
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.outbox.conftest import MakeOutbox
from tests.postgres import Postgres
from tests.real_kafka import RealKafka


class Told:
    """What `on_delivery` and `recover` were told."""

    def __init__(self) -> None:
        self.durable: list[OutboxMessage] = []
        self.failed: list[tuple[Any, OutboxMessage]] = []

    def on_delivery(self, error: Any, told: OutboxMessage) -> None:
        if error is None:
            self.durable.append(told)
        else:
            self.failed.append((error, told))

    def recover(self, told: OutboxMessage, error: Exception) -> None:
        self.failed.append((error, told))


def _stored(database: Database) -> list[Any]:
    wanted = select(message, lane.c.destination, lane.c.slot).join(lane)
    with database.reading() as connection:
        return list(connection.execute(wanted.order_by(message.c.due_ms, message.c.id)))


def test_a_message_is_sent_as_a_producer_sends_it(
    make_outbox: MakeOutbox, up: dict[str, Any], kafka: RealKafka, topic: TopicFactory
) -> None:
    """Key, value, headers, partition and time are in Kafka, and `retry-message-id` with them."""
    told, name = Told(), topic(2, {"retention.ms": "-1"})
    outbox = make_outbox(up)
    outbox.produce(
        *(name, "value", b"key"),
        headers={"a": b"1", "b": None},
        partition=1,
        timestamp=1_700_000_000_000,
        on_delivery=told.on_delivery,
    )
    outbox.produce(name)
    assert 0 == outbox.flush()
    (sent,) = [each for each in kafka.read(name) if each.partition() == 1 and each.value()]
    assert (b"key", b"value", 1_700_000_000_000) == (sent.key(), sent.value(), sent.timestamp()[1])
    (mine,) = told.durable
    assert [
        ("a", b"1"),
        ("b", None),
        ("retry-message-id", mine.message_id.encode()),
    ] == sent.headers()
    assert (1, sent.offset()) == (mine.partition, mine.offset)
    assert 2 == len(kafka.read(name))


def test_what_cannot_be_sent_is_stored_in_order(
    make_outbox: MakeOutbox, down: dict[str, Any], database: Database
) -> None:
    """A message counts as durable once the store has it; what came later is stored behind it."""
    told = Told()
    outbox = make_outbox(down)
    for number in range(1000):
        outbox.produce("orders", b"%d" % number, b"k%d" % (number % 7))
    outbox.produce("orders", "last", on_delivery=told.on_delivery)
    assert [] == told.durable
    assert 0 == outbox.flush()
    outbox.produce("orders", "later", "key", headers=[("a", "1")], on_delivery=told.on_delivery)
    assert 0 == outbox.flush(5.0)
    rows = _stored(database)
    assert [*(b"%d" % number for number in range(1000)), b"last", b"later"] == [
        row.value for row in rows
    ]
    assert [None, None] == [each.offset for each in told.durable]
    assert (("a", b"1"), ("retry-message-id", rows[-1].retry_id.encode())) == read(rows[-1].headers)
    assert len(rows) == len({row.retry_id for row in rows})
    assert {"any", *(row.slot for row in rows if row.slot.startswith("key-"))} == {
        row.slot for row in rows
    }


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_message_that_must_not_be_stored_fails_as_a_producers(
    make_outbox: MakeOutbox, down: dict[str, Any], database: Database
) -> None:
    """`retry=False`: its sender learns the error, and the store does not have it."""
    told = Told()
    outbox = make_outbox(down)
    outbox.produce("logs", b"1", retry=False, on_delivery=told.on_delivery)
    outbox.produce("orders", b"2", on_delivery=told.on_delivery)
    assert 0 == outbox.flush()
    ((error, failed),) = told.failed
    assert ("_MSG_TIMED_OUT", b"1") == (error.name(), failed.value)
    assert [b"2"] == [row.value for row in _stored(database)]
    assert [b"2"] == [each.value for each in told.durable]


def test_messages_that_cannot_be_stored_either_are_told_of(
    make_outbox: MakeOutbox, down: dict[str, Any], database: Database
) -> None:
    """`on_delivery` gets the store's error and `recover` the message: nothing is lost silently."""
    reported, recovered = Told(), Told()
    outbox = make_outbox(down, recover=recovered.recover)
    with database.begin() as connection:
        connection.execute(text("ALTER TABLE linear_retry_message RENAME TO away"))
    outbox.produce("orders", b"1", on_delivery=reported.on_delivery)
    outbox.produce("orders", b"2")
    assert 0 == outbox.flush()
    ((error, failed),) = reported.failed
    assert isinstance(error, Exception)
    assert b"1" == failed.value
    assert [b"1", b"2"] == [each.value for _, each in recovered.failed]
    assert [] == reported.durable


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("error", [ValueError("mine"), SystemExit(3)], ids=repr)
def test_what_recover_raises_does_not_stop_the_others(
    make_outbox: MakeOutbox, down: dict[str, Any], database: Database, error: BaseException
) -> None:
    """It is called for every message, and the outbox goes on. The bug: a `recover` that called
    `sys.exit` ended the outbox's thread in silence, and `flush` waited for ever."""
    seen = []

    def recover(lost: OutboxMessage, _: Exception) -> None:
        seen.append(lost.value)
        raise error

    outbox = make_outbox(down, recover=recover)
    with database.begin() as connection:
        connection.execute(text("ALTER TABLE linear_retry_message RENAME TO away"))
    outbox.produce("orders", b"1")
    outbox.produce("orders", b"2")
    assert 0 == outbox.flush()
    with database.begin() as connection:
        connection.execute(text("ALTER TABLE away RENAME TO linear_retry_message"))
    outbox.produce("orders", b"3")
    assert 0 == outbox.flush()
    assert [b"1", b"2"] == seen
    assert [b"3"] == [row.value for row in _stored(database)]


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_what_a_callback_raises_leaves_poll_and_loses_no_other(
    make_outbox: MakeOutbox, up: dict[str, Any], topic: TopicFactory
) -> None:
    """The other callbacks are called next time."""
    told, name = Told(), topic()
    outbox = make_outbox(up)

    def broken(*_: object) -> None:
        raise ValueError("mine")

    outbox.produce(name, b"1", on_delivery=broken)
    outbox.produce(name, b"2", on_delivery=told.on_delivery)
    with pytest.raises(ValueError, match="mine"):
        outbox.flush()
    assert 0 == outbox.flush()
    assert [b"2"] == [each.value for each in told.durable]


def test_close_stores_what_kafka_has_not_acknowledged(
    make_outbox: MakeOutbox, down: dict[str, Any], database: Database
) -> None:
    """At once, where it is told not to wait."""
    told = Told()
    outbox = make_outbox(down | {"message.timeout.ms": 600_000})
    outbox.produce("orders", b"1", on_delivery=told.on_delivery)
    outbox.close(0.0)
    assert [b"1"] == [row.value for row in _stored(database)]
    assert [b"1"] == [each.value for each in told.durable]
    with pytest.raises(UsageError, match="closed"):
        outbox.produce("orders", b"2")
    outbox.close()


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_ctrl_c_stores_what_kafka_has_not_acknowledged(
    make_outbox: MakeOutbox, down: dict[str, Any], database: Database
) -> None:
    """While `close` waits for the brokers, too."""
    outbox = make_outbox(down | {"message.timeout.ms": 600_000})
    outbox.produce("orders", b"1")
    interrupt = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        outbox.close()
    assert [b"1"] == [row.value for row in _stored(database)]


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_message_that_no_producer_takes_raises(
    make_outbox: MakeOutbox, up: dict[str, Any], down: dict[str, Any], topic: TopicFactory
) -> None:
    """Beyond `message.max.bytes`, or of a type that has no bytes: sent directly or stored."""
    name = topic()
    for settings in (up, down):
        outbox = make_outbox(settings)
        outbox.produce(name, b"1")
        outbox.flush()
        with pytest.raises(KafkaException, match="MSG_SIZE_TOO_LARGE"):
            outbox.produce(name, b"x" * 1_100_000)
        for wrong in (5, 1.5, np.array(["2020"], "M8[D]"), pa.scalar(3), ["x"]):
            with pytest.raises(UsageError, match="value is of type"):
                outbox.produce(name, wrong)  # type: ignore[arg-type]
        for place in ({"partition": 2**40}, {"timestamp": 2**70}, {"timestamp": 1.5}):
            with pytest.raises(UsageError, match="must be a whole number"):
                outbox.produce(name, b"2", **place)
        with pytest.raises(UsageError, match="header"):
            outbox.produce(name, b"2", headers={"\ud800": b""})
        assert 0 == outbox.flush()


_LENT = {
    "array": (np.arange(3, dtype="<i2"), b"\0\0\1\0\2\0"),
    "scalar": (np.float64(1.0), np.float64(1.0).tobytes()),
    "NumPy's bytes": (np.bytes_(b"x"), b"x"),
    "NumPy's text": (np.str_("\u00e4"), b"\xc3\xa4"),
    "a slice": (np.arange(4, dtype="<i2")[::2], b"\0\0\2\0"),
    "Arrow's buffer": (pa.py_buffer(b"abc"), b"abc"),
    "of C": ((ctypes.c_char * 3)(b"a", b"b", b"c"), b"abc"),
    "bytearray": (bytearray(b"abc"), b"abc"),
    "memoryview": (memoryview(b"abc"), b"abc"),
}


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("lent", "content"), _LENT.values(), ids=_LENT)
def test_a_message_of_an_object_that_lends_its_bytes_is_sent_and_stored(
    make_outbox: MakeOutbox,
    up: dict[str, Any],
    down: dict[str, Any],
    kafka: RealKafka,
    topic: TopicFactory,
    database: Database,
    lent: Any,
    content: bytes,
) -> None:
    """confluent-kafka takes them, but they could not be stored, and took others with them.

    Neighbours were lost untold and `flush` never ended. NumPy's text was sent as UTF-32.
    """
    name, told = topic(), Told()
    for settings in (up, down):
        outbox = make_outbox(settings)
        about: dict[str, Any] = {"headers": {"h": lent}, "timestamp": np.int64(1_700_000_000_000)}
        partition: Any = np.int32(0)
        outbox.produce(name, lent, lent, partition=partition, **about)
        outbox.produce(name, b"neighbour", b"n", on_delivery=told.on_delivery)
        assert 0 == outbox.flush()
        with database.begin() as transaction:
            outbox.add(transaction, name, lent, lent, **about)
    assert 2 == len(told.durable)
    (sent,) = [each for each in kafka.read(name) if each.key() == content]
    assert (content, content) == (sent.value(), dict(sent.headers() or [])["h"])
    rows = [row for row in _stored(database) if row.key == content]
    assert [content] * 3 == [row.value for row in rows]
    assert [content] * 3 == [dict(read(row.headers))["h"] for row in rows]
    assert {1_700_000_000_000} == {row.timestamp_ms for row in rows}


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_what_is_changed_after_produce_is_stored_as_it_was(
    make_outbox: MakeOutbox, down: dict[str, Any], database: Database
) -> None:
    """A buffer that is used again: the bytes are those at the time of the call."""
    outbox, used = make_outbox(down), np.zeros(2, dtype="u1")
    for number in range(3):
        used[:] = number
        outbox.produce("orders", used, b"k")  # type: ignore[arg-type]
    assert 0 == outbox.flush()
    assert [b"\0\0", b"\1\1", b"\2\2"] == [row.value for row in _stored(database)]


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_full_queue_raises(make_outbox: MakeOutbox, down: dict[str, Any]) -> None:
    """As a producer's: whoever produces faster than anything takes it has to wait."""
    settings = {"message.timeout.ms": 600_000, "queue.buffering.max.messages": 10}
    outbox = make_outbox(down | settings)
    for number in range(10):
        outbox.produce("orders", b"%d" % number)
    with pytest.raises(BufferError):
        outbox.produce("orders", b"10")
    outbox.close(0.0)


def _produced_until_full(outbox: Outbox) -> int:
    """The next number after those that were accepted, from 1."""
    for number in range(1, 100):
        try:
            outbox.produce("orders", b"%d" % number, b"k")
        except BufferError:
            return number
    return 100


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_full_queue_before_the_store_raises(
    make_outbox: MakeOutbox, down: dict[str, Any], store_url: str, database: Database
) -> None:
    """While the store takes nothing; what was accepted is stored afterwards."""
    outbox = make_outbox(down | {"queue.buffering.max.messages": 10})
    outbox.produce("orders", b"0", b"k")
    assert 0 == outbox.flush()
    writer = sqlite3.connect(store_url.removeprefix("sqlite:///"), isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    accepted = _produced_until_full(outbox)
    writer.rollback()
    writer.close()
    assert 0 == outbox.flush()
    assert 10 < accepted < 30
    assert [b"%d" % number for number in range(accepted)] == [
        row.value for row in _stored(database)
    ]


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_forked_child_is_refused(make_outbox: MakeOutbox, up: dict[str, Any]) -> None:
    """librdkafka's threads are not there; its end leaves the parent's messages alone."""
    outbox = make_outbox(up)
    child = os.fork()
    if child == 0:
        try:
            outbox.produce("orders", b"1")
        except UsageError:
            outbox.close()
            os._exit(7)
        os._exit(1)
    assert 7 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("acks", 1),
        ("enable.idempotence", False),
        ("transactional.id", "mine"),
        ("partitioner", "consistent"),
        ("error_cb", print),
        ("message.timeout.ms", 0),
        ("delivery.timeout.ms", "soon"),
        ("no.such.key", 1),
    ],
)
def test_a_key_that_breaks_a_promise_is_refused(
    key: str, value: object, postgres_url: str, down: dict[str, Any]
) -> None:
    """The sentence names the key; nothing is connected to before."""
    with pytest.raises(ConfigurationError, match=rf"Outbox config {key}"):
        Outbox(down | {key: value}, store=postgres_url)
    with pytest.raises(ConfigurationError, match="bootstrap"):
        Outbox({}, store=postgres_url)


def test_a_store_without_tables_is_refused(postgres: Postgres, down: dict[str, Any]) -> None:
    """PostgreSQL gets its tables by a command, not by the first service that starts."""
    with pytest.raises(StoreVersionError, match="migrate"):
        Outbox(down, store=postgres.new_database("without_tables"))


@pytest.mark.parametrize("library", ["sqlalchemy", "alembic", "psycopg"])
def test_a_library_that_is_missing_is_named(library: str) -> None:
    """Without the extra there was a traceback that named a library of which the page says nothing.

    The sentence is the command's.
    """
    program = f"import sys; sys.modules[{library!r}] = None; import linear_retry.outbox"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    last = done.stderr.decode().splitlines()[-1]
    missing = f"{library} is missing: pip install 'linear-retry[scheduler]'"
    assert (1, f"ModuleNotFoundError: {missing}") == (done.returncode, last)


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_everything_is_sent_while_nobody_polls(
    make_outbox: MakeOutbox, up: dict[str, Any], kafka: RealKafka, topic: TopicFactory
) -> None:
    """The outbox sees to the reports itself; only `on_delivery` waits for `poll`."""
    name = topic()
    outbox = make_outbox(up)
    for number in range(2000):
        outbox.produce(name, b"%d" % number, b"k")
    wait_until(lambda: len(outbox) == 0, "all are acknowledged")
    assert [b"%d" % number for number in range(2000)] == [one.value() for one in kafka.read(name)]
