"""docs/concepts/keys.md is true."""

import threading
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
from confluent_kafka import Producer

from linear_retry import ByKey, LinearConsumer
from linear_retry.consumer import assembly
from linear_retry.consumer.settings import checks
from linear_retry.kafka import Message
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from tests.docs.markdown import blocks, code, page, table
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S

_PAGE = page("docs/concepts/keys.md")
_CLOSED = b"account-7"


class _Bank:
    """A handler that pays what is not of a closed account."""

    def __init__(self) -> None:
        self.paid: list[bytes | None] = []
        self.is_open = False

    def __call__(self, message: Message) -> None:
        if message.key() == _CLOSED and not self.is_open:
            raise ConnectionError("this bank is closed")
        self.paid.append(message.key())


def _started(
    program: str, bootstrap: str, handler: Callable[[Message], None]
) -> tuple[LinearConsumer, threading.Thread]:
    """The page's program, in a thread, and its consumer."""
    made: list[LinearConsumer] = []
    entered = threading.Event()

    class Kept(LinearConsumer):
        def __enter__(self) -> "Kept":
            made.append(self)
            entered.set()
            return super().__enter__()

    names: dict[str, Any] = {}
    exec(compile(program, "keys.md", "exec"), names)
    names["LinearConsumer"] = Kept
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": "payments",
        "auto.offset.reset": "earliest",
    }
    thread = threading.Thread(target=names["by_account"], args=(config, handler))
    thread.start()
    assert entered.wait(PATIENCE_S)
    return made[0], thread


@pytest.mark.parametrize("program", blocks(_PAGE, "python"))
def test_the_programs_run(program: str) -> None:
    """One account's bank is closed: it waits, named by a digest, and the other is paid."""
    bank = _Bank()
    with EmbeddedKafka() as broker:
        for topic in ("payments", "payments.dlq"):
            broker.create_topic(topic, 1)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for number in range(20):
            account = _CLOSED if number % 2 else b"account-8"
            producer.produce("payments", b'{"account": "%b"}' % account, account)
        assert 0 == producer.flush(PATIENCE_S)
        consumer, thread = _started(program, broker.bootstrap, bank)
        try:
            wait_until(lambda: len(bank.paid) == 10, "the open account is served")
            wait_until(lambda: "keys that are held: 1" in consumer.health().reason, "one is held")
            (key,) = [scope.key for scope in consumer.circuits if scope.key is not None]
            assert len(key) == 12
            assert "account" not in f"{consumer.circuits}{consumer.health()}"
            assert "consuming" == consumer.health().state
            bank.is_open = True
            consumer.retry_now().result(PATIENCE_S)
            wait_until(lambda: len(bank.paid) == 20, "the other is served, too")
        finally:
            consumer.stop()
            thread.join()


def test_the_table_has_every_setting() -> None:
    """Each field of `ByKey`, with its default."""
    rows = {
        code(row[0])[0]: code(row[1])[0].strip('"').replace("_000", "000")
        for row in table(_PAGE, "setting of `ByKey`")
    }
    assert {
        field.name: f"{field.default:g}" if isinstance(field.default, float) else str(field.default)
        for field in fields(ByKey)
    } == rows


def test_the_limits_are_as_the_page_says() -> None:
    """Of memory, and of notes."""
    assert f"up to {assembly._MOST_OF_KEYS:,} and `most_bytes`" in _PAGE
    assert f"of more than {checks._MOST_NOTED} together are warned about" in _PAGE
