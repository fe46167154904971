"""docs/guides/handlers.md is true."""

import ast
import sqlite3
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import httpx
import psycopg
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message
from confluent_kafka.schema_registry import SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from linear_retry import LinearConsumer, Rule, Strategy, message_id
from linear_retry.dlq.replay.outgoing import outgoing
from linear_retry.records.text import Header
from tests.charges import broker_with_orders, reasons, run_example
from tests.dlq.sample_letters import our_letter
from tests.docs.markdown import blocks, page
from tests.postgres import Postgres

_JSON, _HTTP, _DATABASE, _AVRO, _ATTEMPT, _RULES = blocks(page("docs/guides/handlers.md"), "python")

_SCHEMA = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'


def _defined(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(code, names)
    return names


def test_what_is_not_json_is_a_dead_letter(capsys: pytest.CaptureFixture[str]) -> None:
    """And what is, is handled."""
    book = _defined(_JSON)["book"]

    def handle(message: Message) -> None:
        book(message)
        if message.offset() == 1:
            consumer.stop()

    with broker_with_orders(b"{", b'{"id": 7}') as broker:
        consumer = LinearConsumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": "billing"},
            ["orders"],
            strategy=[1],
            transient=ConnectionError,
            dead_letters="orders.dlq",
        )
        with consumer:
            consumer.run(handle)
        assert [(b"{", "permanent")] == reasons(broker)
    assert "order 7\n" == capsys.readouterr().out


def test_the_program_charges() -> None:
    """Each order, with its key, in order; a 503 is retried, a 402 is a dead letter."""
    # Its service names no time in a 503: the strategy's first delay is the wait.
    run_example(_HTTP.replace("RetryAfter.from_response(response)", "RetryAfter(10)"))


class _Message:
    """What a handler asks of a message."""

    def __init__(
        self, value: bytes, offset: int, headers: Sequence[Header] = (), partition: int = 0
    ) -> None:
        self._value, self._offset, self._headers = value, offset, [*headers]
        self._partition = partition

    def headers(self) -> list[Header] | None:
        return self._headers or None

    def topic(self) -> str:
        return "orders"

    def partition(self) -> int:
        return self._partition

    def timestamp(self) -> tuple[int, int]:
        return TIMESTAMP_CREATE_TIME, 1_795_253_536_810 + self._offset

    def key(self) -> bytes:
        return b"ann"

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes:
        return self._value


@pytest.mark.parametrize("for_group", [None, "", "refunds"])
def test_a_replayed_message_keeps_its_id(for_group: str | None) -> None:
    """For whichever group it was sent."""
    headers = outgoing(our_letter(7), "run-1", lambda *_: None, for_group).headers
    first, replayed, another = (
        cast(Message, _Message(b"book", offset, headers, partition=3))
        for offset, headers in ((7, []), (99, headers), (99, []))
    )
    assert message_id(first) == message_id(replayed) != message_id(another)


def test_a_message_that_comes_again_is_booked_once() -> None:
    """And one that fails leaves nothing behind."""
    save = _defined(_DATABASE)["save"]
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE handled (id TEXT PRIMARY KEY)")
    database.execute("CREATE TABLE account AS SELECT 100 AS balance")
    for _ in range(2):
        save(database, _Message(b"30", 5))
    with pytest.raises(ValueError, match="invalid literal"):
        save(database, _Message(b"many", 6))
    assert [(70,)] == database.execute("SELECT balance FROM account").fetchall()
    assert 1 == len(database.execute("SELECT id FROM handled").fetchall())
    database.close()


@pytest.mark.broker
def test_the_same_with_postgres() -> None:
    """With the two changes that the page names for psycopg."""
    changed = _DATABASE.replace("?", "%s").replace("with database:", "with database.transaction():")
    save = _defined(changed)["save"]
    with Postgres() as server, psycopg.connect(server.url, autocommit=True) as database:
        database.execute("CREATE TABLE handled (id TEXT PRIMARY KEY)")
        database.execute("CREATE TABLE account AS SELECT 100 AS balance")
        for _ in range(2):
            save(database, _Message(b"30", 5))
        with pytest.raises(ValueError, match="invalid literal"):
            save(database, _Message(b"many", 6))
        assert [(70,)] == database.execute("SELECT balance FROM account").fetchall()
        assert 1 == len(database.execute("SELECT id FROM handled").fetchall())


def test_avro_is_decoded_and_anything_else_is_a_dead_letter() -> None:
    """With confluent-kafka's own serializer, and its registry in memory."""
    registry = SchemaRegistryClient.new_client({"url": "mock://orders"})
    serialize = AvroSerializer(registry, _SCHEMA)
    context = SerializationContext("orders", MessageField.VALUE)
    book, pen = (serialize({"id": number}, context) for number in (1, 2))
    seen: list[object] = []

    def handle(order: object) -> None:
        seen.append(order)
        if len(seen) == 2:
            consumer.stop()

    names = _defined(_AVRO)
    with broker_with_orders(book, b"nonsense", pen) as broker:
        consumer = LinearConsumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": "billing"},
            ["orders"],
            strategy=[1],
            transient=names["is_down"],
            dead_letters="orders.dlq",
        )
        with consumer:
            consumer.run(names["decoding"](registry, handle))
        assert [(b"nonsense", "permanent")] == reasons(broker)
    assert [{"id": 1}, {"id": 2}] == seen


def test_a_registry_that_is_down_is_waited_for() -> None:
    """Whether it cannot be reached or cannot answer; one that answers no is not down."""
    names = _defined(_AVRO)
    registry = SchemaRegistryClient({"url": "http://127.0.0.1:1", "max.retries": 0})
    with pytest.raises(names["httpx2"].TransportError) as unreachable:
        names["decoding"](registry, print)(_Message(b"\0\0\0\0\1\x0e", 0))
    answers = [SchemaRegistryError(status, 50001, "") for status in (500, 503, 404)]
    failed = [unreachable.value, *answers]
    assert [True, True, True, False] == [names["is_down"](error) for error in failed]


def test_the_last_attempt_has_more_time(capsys: pytest.CaptureFixture[str]) -> None:
    """And a message that has failed says so."""
    settle, timeouts = _defined(_ATTEMPT)["settle"], list[int]()

    class Ledger:
        def post(self, value: bytes, timeout: int) -> None:
            assert value == b"7"
            timeouts.append(timeout)
            if len(timeouts) < 3:
                raise ConnectionError
            consumer.stop()

    with broker_with_orders(b"7") as broker:
        consumer = LinearConsumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": "billing"},
            ["orders"],
            strategy=[0.01, 0.01],
            transient=ConnectionError,
            dead_letters="orders.dlq",
        )
        with consumer:
            consumer.run(partial(settle, Ledger()))
    assert [5, 5, 60] == timeouts
    said = [line.partition(" since ") for line in capsys.readouterr().out.splitlines()]
    assert ["attempt 2 of 0", "attempt 3 of 0"] == [before for before, _, _ in said]
    assert said[0][2] == said[1][2]


def test_each_kind_of_error_has_its_strategy() -> None:
    """And each topic; what no rule takes is a dead letter at once."""
    (given,) = [
        node.value
        for node in ast.walk(ast.parse(_RULES))
        if isinstance(node, ast.keyword) and node.arg == "strategy"
    ]
    rules = eval(ast.unparse(given), {"httpx": httpx, "Rule": Rule})
    errors = httpx.ReadTimeout("slow"), httpx.ConnectError("refused"), KeyError("id")

    def first(error: Exception, topic: str) -> Strategy | None:
        return next((rule.strategy for rule in rules if rule.takes(error, topic)), None)

    quick, long, short = (rule.strategy for rule in rules)
    assert [quick, long, None] == [first(error, "orders") for error in errors]
    assert [quick, short, None] == [first(error, "refunds") for error in errors]
    with broker_with_orders(b"{}") as broker:
        broker.create_topic("refunds", 1)
        config = {"bootstrap.servers": broker.bootstrap, "group.id": "billing"}

        def settle(_: Message) -> None:
            raise SystemExit("it runs")

        with pytest.raises(SystemExit, match="it runs"):
            _defined(_RULES)["consume"](config, settle)
