"""Is what docs/operations.md says true?"""

from __future__ import annotations

import re
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from confluent_kafka import Message, Producer
from prometheus_client import REGISTRY
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from linear_retry import LinearConsumer, Strategy
from linear_retry.consumer.health import HealthState
from linear_retry.kafka.embedded import EmbeddedKafka
from linear_retry.metrics import Metrics
from tests.kafka_operations import wait_until
from tests.markdown import blocks, code, page, table

_PAGE = page("docs/operations.md")
_CURL = "curl -s http://HOST:8080"
_CODE = "\n".join(blocks(_PAGE, "python"))
_LABELS = {code(row[0])[0]: set(code(row[1])) for row in table(_PAGE, "metric")}
_COMMANDS = [line for block in blocks(_PAGE, "sh") for line in block.splitlines()]


def _consumer(bootstrap: str) -> LinearConsumer:
    return LinearConsumer(
        {"bootstrap.servers": bootstrap, "group.id": "billing", "log_level": 0},
        ["orders"],
        strategy=Strategy(["1h"]),
        transient=ConnectionError,
        dead_letters="orders.dlq",
    )


@pytest.fixture
def names() -> dict[str, Any]:
    """What the page's code defines."""
    found: dict[str, Any] = {}
    exec(compile(_CODE, "operations.md", "exec"), found)
    return found


@pytest.fixture
def broker() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("orders", 1)
        kafka.create_topic("orders.dlq", 1)
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
        for value in (b"first", b"second"):
            producer.produce("orders", value)
        assert 0 == producer.flush(10)
        yield kafka


def test_what_is_typed_is_answered(broker: EmbeddedKafka, names: dict[str, Any]) -> None:
    """The page's service, asked by each of the page's commands, while a message is held."""

    def handle(_: Message) -> None:
        raise ConnectionError("the ledger is down")

    port = _free_port()
    consumer = _consumer(broker.bootstrap)
    thread = threading.Thread(target=names["live"], args=(consumer, handle, port))
    thread.start()
    try:
        wait_until(lambda: consumer.health().state == "open", "a circuit is open")
        answers = [_typed(command, port) for command in _COMMANDS]
        assert 2 == len(answers)
        assert [] == [text for text in answers if "the ledger is down" not in text]
        wait_until(lambda: names["summary"](consumer).endswith("; 2 to read"), "the lag is known")
        families = list(text_string_to_metric_families(_typed(f"{_CURL}/metrics", port)))
        assert {"linear_retry_lag", "linear_retry_open_circuits"} <= {one.name for one in families}
        assert [] == [
            sample
            for family in families
            for sample in family.samples
            if sample.labels.keys() - {"le"} != _LABELS[_listed(family)]
        ]
        assert names["summary"](consumer).startswith("billing: open, a circuit is open, until ")
    finally:
        consumer.stop()
        thread.join(30)
    with pytest.raises(urllib.error.URLError):
        _typed(_COMMANDS[0], port)


def _listed(family: Metric) -> str:
    return family.name + ("_total" if family.type == "counter" else "")


def _typed(command: str, port: int) -> str:
    """What `curl -s URL` prints."""
    found = re.fullmatch(r"curl -s http://HOST:8080(/\S+)", command)
    assert found is not None, command
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{found[1]}", timeout=10) as answer:
        return str(answer.read(), "utf-8")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_registry_takes_it(names: dict[str, Any]) -> None:
    """As the page registers it, with the service's own metrics."""
    ours = names["register"](_consumer("127.0.0.1:9"))
    try:
        labels = {"group": "billing", "state": "starting"}
        assert 1.0 == REGISTRY.get_sample_value("linear_retry_state", labels)
    finally:
        REGISTRY.unregister(ours)


def test_every_state_is_there() -> None:
    """And no other; with what `/livez` and `/readyz` answer in it."""
    rows = {code(row[0])[0]: (row[2], row[3]) for row in table(_PAGE, "`state`")}
    alive, ready = {"starting", "consuming", "open"}, {"consuming", "open"}
    assert {
        state: (_status(state in alive), _status(state in ready)) for state in get_args(HealthState)
    } == rows


def _status(well: bool) -> str:
    return "200" if well else "503"


def test_every_metric_is_there() -> None:
    """Under the name that Prometheus has for it, and no other."""
    assert sorted(map(_listed, Metrics().describe())) == sorted(_LABELS)
