"""docs/operations/on-call.md is true."""

import os
import re
import shlex
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from typing import Any, get_args

import pytest
from confluent_kafka import Message
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from docs.generators.metrics import exported_name, labels_of
from linear_retry import Journal
from linear_retry.cli import app
from linear_retry.consumer.operations.health import HealthState
from linear_retry.journal.group_state import MemberState
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from linear_retry.monitoring.metrics import Metrics
from tests.cli.terminal import terminal
from tests.docs.markdown import blocks, code, page, table
from tests.kafka_operations import wait_until
from tests.living import broker_of_orders, living, patient_consumer
from tests.patience import PATIENCE_S
from tests.prometheus import free_port

_PAGE = page("docs/operations/on-call.md")
_CURL = "curl -s http://HOST:8080"
_CODE = "\n".join(blocks(_PAGE, "python"))
_LABELS = {exported_name(one): set(labels_of(one)) for one in Metrics().describe()}
_COMMANDS = [line for block in blocks(_PAGE, "sh") for line in block.splitlines()]
_CURLS = [line for line in _COMMANDS if line.startswith("curl ")]
_SHELL = [line for line in _COMMANDS if line not in _CURLS and " dlq " not in line]


@pytest.fixture
def names() -> dict[str, Any]:
    """What the page's code defines."""
    found: dict[str, Any] = {}
    exec(compile(_CODE, "operations.md", "exec"), found)
    return found


@pytest.fixture
def broker() -> Iterator[EmbeddedKafka]:
    with broker_of_orders(b"first", b"second") as kafka:
        yield kafka


def _handle(_: Message) -> None:
    raise ConnectionError("the ledger is down")


def test_what_is_typed_is_answered(broker: EmbeddedKafka, names: dict[str, Any]) -> None:
    """The page's service, asked by each of the page's commands, while a message is held."""
    port = free_port()
    live = partial(names["live"], port=port)
    with living(patient_consumer(broker.bootstrap), _handle, live) as consumer:
        wait_until(lambda: consumer.health().state == "open", "a circuit is open")
        answers = [_typed(command, port) for command in _CURLS]
        assert 2 == len(answers)
        assert [] == [text for text in answers if "the ledger is down" not in text]
        wait_until(lambda: names["summary"](consumer).endswith("; 2 to read"), "the lag is known")
        families = list(text_string_to_metric_families(_typed(f"{_CURL}/metrics", port)))
        assert {"linear_retry_lag", "linear_retry_open_circuits"} <= {one.name for one in families}
        assert [] == [
            sample
            for family in families
            for sample in family.samples
            if sample.labels.keys() - {"le"} != _LABELS[exported_name(family)]
        ]
        assert names["summary"](consumer).startswith("billing: open, a circuit is open, until ")
    with pytest.raises(urllib.error.URLError):
        _typed(_CURLS[0], port)


def test_a_shell_sees_the_whole_group(broker: EmbeddedKafka) -> None:
    """From the journal, by each of the page's commands: the held message, and its error."""
    list_, watch = [shlex.split(line.replace("HOST:9092", broker.bootstrap))[1:] for line in _SHELL]
    with living(patient_consumer(broker.bootstrap, listeners=[Journal()]), _handle):
        with terminal(*watch) as shown:
            shown.wait_for("circuit open (consumer): orders[0]@0")
            shown.wait_for("the ledger is down")
        listed = CliRunner().invoke(app, list_)
    assert f", pid {os.getpid()}, client.id rdkafka\t" in listed.stdout
    assert (0, True) == (listed.exit_code, "the ledger is down" in listed.stdout)
    assert {"open"} == {line.split("\t")[5] for line in listed.stdout.splitlines()[1:]}


def test_every_state_of_a_member_is_there() -> None:
    """As `watch` tells them, and no other."""
    assert {*get_args(MemberState)} == {code(row[0])[0] for row in table(_PAGE, "member")}


def _typed(command: str, port: int) -> str:
    """What `curl -s URL` prints."""
    found = re.fullmatch(r"curl -s http://HOST:8080(/\S+)", command)
    assert found is not None, command
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{found[1]}", timeout=PATIENCE_S) as answer:
        return str(answer.read(), "utf-8")


def test_the_registry_takes_it(names: dict[str, Any]) -> None:
    """As the page registers it, with the service's own metrics."""
    ours = names["register"](patient_consumer("127.0.0.1:9"))
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
