"""docs/concepts/scopes.md is true."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, get_args
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from linear_retry import LinearConsumer
from linear_retry.kafka import Message
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from linear_retry.records.control import Command, CommandName, encode
from linear_retry.retry.clock import now_ms
from linear_retry.scope import AnyScope, Scope
from tests.docs.markdown import blocks, code, page, table
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S

_PAGE = page("docs/concepts/scopes.md")
_PROGRAM, _BESIDE, _GROUP, _TELL = blocks(_PAGE, "python")


@contextmanager
def _running(broker: EmbeddedKafka) -> Iterator[dict[str, Any]]:
    """The page's names, while its program runs in a thread."""
    names: dict[str, Any] = {}
    exec(compile(_TELL, "scopes.md", "exec"), names)
    program = compile(_PROGRAM.replace("localhost:9092", broker.bootstrap), "scopes.md", "exec")
    thread = threading.Thread(target=exec, args=(program, names))
    thread.start()
    try:
        yield names
    finally:
        names["consumer"].stop()
        thread.join()


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """One shop is closed and the other's orders are delivered; `tell` says which, and nothing once
    it has opened."""
    with EmbeddedKafka() as broker:
        broker.create_topic("orders", 2)
        broker.create_topic("orders.dlq", 2)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for number in (0, 1, 0, 1, 0):
            producer.produce("orders", b"order", partition=number)
        assert 0 == producer.flush(PATIENCE_S)
        with _running(broker) as names:
            output = _until(capsys, names, "delivered orders[0]@2", "orders[1] is open")
            assert "orders[1] is open for orders[1]@0, failures so far: 1\n" in output
            assert "delivered orders[1]" not in output
            names["closed"].clear()
            _until(capsys, names, "delivered orders[1]@0", "delivered orders[1]@1")
            capsys.readouterr()
            names["tell"](names["consumer"])
            assert "" == capsys.readouterr().out


def test_partitions_are_handled_side_by_side() -> None:
    """Four handlers wait for one another: one thread alone would wait for ever."""
    together, done = threading.Barrier(4), threading.Event()

    def handle(_: Message) -> None:
        together.wait(PATIENCE_S)
        done.set()

    names: dict[str, Any] = {}
    exec(compile(_BESIDE, "scopes.md", "exec"), names)
    with EmbeddedKafka() as broker:
        broker.create_topic("orders", 4)
        broker.create_topic("orders.dlq", 4)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for number in range(4):
            producer.produce("orders", b"order", partition=number)
        assert 0 == producer.flush(PATIENCE_S)
        made: list[LinearConsumer] = []

        class Kept(LinearConsumer):
            def __enter__(self) -> "Kept":
                made.append(self)
                return self

        names["LinearConsumer"] = Kept
        config = {"bootstrap.servers": broker.bootstrap, "group.id": "billing"}
        thread = threading.Thread(target=names["side_by_side"], args=(config, handle))
        thread.start()
        assert done.wait(PATIENCE_S)
        made[0].stop()
        thread.join()


def test_a_member_holds_while_another_attempts() -> None:
    """Which that has announced on the topic of the page's program, until it says that it has
    succeeded."""
    done, names, made = threading.Event(), dict[str, Any](), list[LinearConsumer]()

    class Kept(LinearConsumer):
        def __enter__(self) -> "Kept":
            made.append(self)
            return self

    def holds() -> bool:
        return bool(made) and made[0].circuits[Scope()].waits_for == "group"

    def say(name: CommandName, **more: Any) -> None:
        command = Command(str(uuid4()), name, "billing", None, None, None, "pod-2", now_ms())
        producer.produce("linear-retry.control", encode(replace(command, **more)))
        assert 0 == producer.flush(PATIENCE_S)

    with EmbeddedKafka() as broker:
        for topic in ("orders", "orders.dlq", "linear-retry.control"):
            broker.create_topic(topic, 1)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        exec(
            compile(_GROUP.replace("localhost:9092", broker.bootstrap), "scopes.md", "exec"), names
        )
        names["LinearConsumer"] = Kept
        thread = threading.Thread(target=names["consume"], args=(lambda _: done.set(),))
        thread.start()
        say("outage", for_s=50, reason="refused", first_ms=now_ms())
        wait_until(holds, "it holds")
        producer.produce("orders", b"order")
        say("recovery")
        assert done.wait(PATIENCE_S)
        assert not holds()
        made[0].stop()
        thread.join()


def _until(capsys: pytest.CaptureFixture[str], names: dict[str, Any], *wanted: str) -> str:
    output: list[str] = []

    def received() -> bool:
        if isinstance(names.get("consumer"), LinearConsumer):
            names["tell"](names["consumer"])
        output.append(capsys.readouterr().out)
        return all(text in "".join(output) for text in wanted)

    wait_until(received, " and ".join(wanted), detail=lambda: "".join(output))
    return "".join(output)


def test_the_table_has_every_scope() -> None:
    """The page's table has each value of `scope`, in order."""
    rows = [code(row[0])[0].strip('"') for row in table(_PAGE, "`scope`")]
    assert list(get_args(AnyScope)) == rows


@pytest.mark.parametrize(
    ("key", "text"),
    [(Scope("orders", 1), "orders[1]"), (Scope("orders"), "orders"), (Scope(), "consumer")],
)
def test_scopes_are_written_as_the_page_says(key: Scope, text: str) -> None:
    """`str(scope)`, in the page's order."""
    assert text == str(key)
    assert f"`{text}`" in _PAGE
