"""The first page, docs/concepts/ and the comparison are true; scopes have a test of their own."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Message

from linear_retry import LinearConsumer, Scope, Strategy
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from tests.charges import broker_with_orders, reasons
from tests.docs.markdown import blocks, page

_DESCRIBE, _STRATEGY = blocks(page("docs/concepts/overview.md"), "python")
_BARE, _OURS, _TENACITY, _BY_KEY, _DJANGO = blocks(page("docs/about/comparison.md"), "python")
(_INDEX,) = blocks(page("docs/index.md"), "python")
_CONFIG = {"bootstrap.servers": "localhost:9092", "group.id": "billing"}


def _defined(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(code, names)
    return names


def test_a_circuit_is_described() -> None:
    """By the page's function, while it is closed and while a message is held."""
    describe = _defined(_DESCRIBE)["describe"]
    output: list[str] = []

    def handle(_: Message) -> None:
        raise ConnectionError

    def look(_: object) -> None:
        if consumer.circuits[Scope()].state == "open":
            output.append(describe(consumer))
            consumer.stop()

    with broker_with_orders(b"1") as broker:
        consumer = LinearConsumer(
            _CONFIG | {"bootstrap.servers": broker.bootstrap},
            ["orders"],
            strategy=[10],
            transient=ConnectionError,
            dead_letters="orders.dlq",
            listeners=[look],
        )
        assert "nothing is held" == describe(consumer)
        with consumer:
            consumer.run(handle)
    assert "open: orders[0]@0, failures: 1" == output[0]


def test_the_program_of_the_first_page_consumes() -> None:
    """With a handler of one's own."""
    seen: list[bytes | None] = []

    def charge(message: Message) -> None:
        seen.append(message.value())
        if len(seen) == 1:
            raise ConnectionError
        names["consumer"].stop()

    names: dict[str, Any] = {"charge": charge}
    with broker_with_orders(b"1") as broker:
        exec(_INDEX.replace("localhost:9092", broker.bootstrap), names)
    assert [b"1", b"1"] == seen


def test_the_waits_are_those_of_the_page() -> None:
    """And the last failure has none."""
    waits = _defined(_STRATEGY)["waits"]
    assert f"`waits` is `{waits}`" in page("docs/concepts/overview.md")


def _consume(code: str, broker: EmbeddedKafka, charge: Callable[[Message], None]) -> None:
    config = {"bootstrap.servers": broker.bootstrap, "auto.offset.reset": "earliest"}
    _defined(code)["consume"](config, charge)


def test_the_bare_loop_loses_what_ours_sends_to_the_dead_letters() -> None:
    """A permanent error ends the one; the other goes on behind it, and stops as it is asked to."""
    seen: list[bytes | None] = []

    def charge(message: Message) -> None:
        seen.append(message.value())
        if message.value() == b"2":
            raise ValueError("not an order")
        if message.value() == b"3":
            raise KeyboardInterrupt

    with broker_with_orders(b"1", b"2", b"3") as broker:
        with pytest.raises(ValueError, match="not an order"):
            _consume(_BARE, broker, charge)
        assert [b"1", b"2"] == seen
        # The bare client has committed the failed message as it closed.
        with pytest.raises(KeyboardInterrupt):
            _consume(_OURS, broker, charge)
        assert [b"1", b"2", b"3"] == seen
    with broker_with_orders(b"1", b"2", b"3") as broker:
        with pytest.raises(KeyboardInterrupt):
            _consume(_OURS, broker, charge)
        assert [(b"2", "permanent")] == reasons(broker)


def test_strategies_of_the_comparison_wait_as_reported() -> None:
    """As many delays as attempts, less one."""
    tenacity = _defined(_TENACITY)
    assert [2.0] * 4 == list(tenacity["fixed"])
    assert [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0] == list(tenacity["growing"])
    assert [1.0, 1.0] == list(Strategy([{"every": 1, "times": 2}]))


@pytest.mark.parametrize(("code", "name"), [(_DJANGO, "consumer_of"), (_BY_KEY, "consumer_by_key")])
def test_the_consumers_of_the_comparison_are_made(code: str, name: str) -> None:
    """Their settings fit together."""
    assert "billing" == _defined(code)[name](_CONFIG).group_id
