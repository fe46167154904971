"""A real Prometheus takes the alert rules, the dashboard's queries and our metrics."""

import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml
from confluent_kafka import KafkaError, Message, Producer

from linear_retry import Journal, LinearConsumer, RetryTopics, Scope, Strategy
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from linear_retry.monitoring.health import serve
from tests.debian import NoPackageError
from tests.docs.markdown import ROOT, blocks, page
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.prometheus import SCRAPE_S, Prometheus, program

_RULES = ROOT / "ops/alerts.yml"
_CASES = ROOT / "ops/alerts_test.yml"
_DASHBOARD: dict[str, Any] = json.loads(page("ops/dashboard.json"))
_QUERIES = {
    f"{panel['title']} {target['refId']}": target["expr"]
    .replace("$group", "bill.*")
    .replace("$__rate_interval", "30s")
    for panel in _DASHBOARD["panels"]
    for target in panel["targets"]
}
_ONLY_BY_KEY = {"Held keys A", "Held keys B", "Oldest held key A"}
"""They have nothing to show of this consumer, and are valid; `test_metrics` shows their figures."""
_ONLY_WHILE_OPEN = {"Open for A", "Next attempt in A", "Failures of the held message A"}

# Scraped after the letter was taken, and all before the held message was committed.
_HELD = (
    "linear_retry_circuit_retry_timestamp_seconds - time() > 60 "
    "and on (group) sum by (group) (linear_retry_lag) == 2"
)
# Not on the same brokers: the fault there is for the letter's producer. Nothing is dropped so soon.
_AWAY = {"bootstrap.servers": "127.0.0.1:9", "message.timeout.ms": 600_000}
_CLOSED = 'linear_retry_state{state="consuming"} == 1'

_Seen: TypeAlias = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def promtool() -> str:
    try:
        return program("promtool")
    except NoPackageError as error:
        pytest.fail(str(error), pytrace=False)  # never a skip: green must mean tried


def _says(promtool: str, *arguments: str) -> str:
    done = subprocess.run(
        [promtool, *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout


def test_the_rules_are_rules(promtool: str) -> None:
    """As Prometheus reads them, with nothing that it would only warn of."""
    alerts = page("ops/alerts.yml").count("- alert: ")
    assert f"SUCCESS: {alerts} rules found" in _says(promtool, "check", "rules", str(_RULES))


def test_each_alert_comes_when_it_should_and_only_then(promtool: str) -> None:
    """Those of ops/alerts_test.yml: of each alert one that comes, and one that does not."""
    assert "SUCCESS" in _says(promtool, "test", "rules", str(_CASES))
    cases = re.findall(r"alertname: (\w+)\n +eval_time: \w+\n +exp_alerts:(.*)", _CASES.read_text())
    alerts = re.findall(r"- alert: (\w+)", page("ops/alerts.yml"))
    assert set(alerts) == {name for name, expected in cases if expected == " []"}
    assert set(alerts) == {name for name, expected in cases if expected == ""}


def test_a_rule_that_is_wrong_is_found(promtool: str, tmp_path: Path) -> None:
    """Else the cases would be true of anything."""
    rules = page("ops/alerts.yml")
    assert "> 900" in rules
    (tmp_path / "alerts.yml").write_text(rules.replace("> 900", "> 90"))
    (tmp_path / _CASES.name).write_text(_CASES.read_text())
    command = [promtool, "test", "rules", str(tmp_path / _CASES.name)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE_S)
    assert 1 == done.returncode


def _series(
    name: str, place: tuple[str, str, str], value: int, group: str = "billing"
) -> dict[str, str]:
    """One of promtool's series; `place` is its instance, topic and partition."""
    instance, topic, partition = place
    labels = f'group="{group}", instance="{instance}", topic="{topic}", partition="{partition}"'
    return {"series": f"linear_retry_{name}{{{labels}}}", "values": str(value)}


@pytest.mark.parametrize(
    ("backlogs", "open_circuits", "expected"),
    [
        ({("a", 0): (70, 0), ("a", 1): (50, 0)}, [], 120),
        ({("a", 0): (70, 0), ("b", 1): (50, 0)}, [("a", "", "")], 50),
        ({("a", 0): (70, 0), ("a", 1): (50, 0)}, [("a", "", "")], 0),
        ({("a", 0): (70, 0), ("a", 1): (50, 0)}, [("a", "orders", "0")], 50),
        ({("a", 0): (70, 0), ("b", 1): (50, 0)}, [("b", "orders", "")], 70),
        ({("a", 0): (70, 0), ("a", 1): (50, 0)}, [("a", "refunds", "")], 120),
        ({("a", 0): (900, 860), ("a", 1): (50, 0)}, [], 90),
        ({("a", 0): (-50, 0), ("a", 1): (50, 0)}, [], 50),
        ({}, [], 0),
    ],
)
def test_an_autoscaler_leaves_out_what_waits_on_purpose(
    backlogs: dict[tuple[str, int], tuple[int, int]],
    open_circuits: list[tuple[str, str, str]],
    expected: int,
    promtool: str,
    tmp_path: Path,
) -> None:
    """Partitions behind an open circuit, whatever that pauses, and messages behind held keys."""
    (scaled,) = blocks(page("docs/operations/autoscaling.md"), "yaml")
    (trigger,) = yaml.safe_load(scaled)["spec"]["triggers"]
    series = [_series("unfinished", ("x", "orders", "0"), 7, group="ledger")]
    for (instance, number), (unfinished, waiting) in backlogs.items():
        place = instance, "orders", str(number)
        series.append(_series("unfinished", place, unfinished))
        series.append(_series("waiting_behind_held", place, waiting))
    series += [_series("circuit_open_seconds", place, 1) for place in open_circuits]
    samples = [{"labels": "{}", "value": expected}]
    case = {"expr": trigger["metadata"]["query"], "eval_time": "0s", "exp_samples": samples}
    test = {"interval": "1m", "input_series": series, "promql_expr_test": [case]}
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"tests": [test]}))
    assert "SUCCESS" in _says(promtool, "test", "rules", str(tmp_path / "test.yml"))


class _Dependency:
    def __init__(self) -> None:
        self.is_up = False

    def __call__(self, message: Message) -> None:
        if message.value() == b"bad":
            raise ValueError("bad")
        if message.value() == b"off" or (message.value() == b"down" and not self.is_up):
            raise ConnectionError("down")


@pytest.fixture(scope="module")
def seen(promtool: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What each query gave while a message was held (`open`), and after (`closed`); and the rules.

    Before that a letter was not taken at first, and another message went to its retry topic.
    """
    dependency, found = _Dependency(), dict[str, Any]()
    with EmbeddedKafka() as kafka:
        kafka.create_topic("orders", 1)
        kafka.create_topic("orders.dlq", 1)
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
        kafka.create_topic("orders.billing.retry.1h", 1)
        for value in (b"well", b"bad", b"off", b"down", b"well"):
            producer.produce("orders", value, b"key")
        assert 0 == producer.flush(PATIENCE_S)
        consumer = LinearConsumer(
            {"bootstrap.servers": kafka.bootstrap, "group.id": "billing", "log_level": 0},
            ["orders"],
            strategy=Strategy(["1h"]),
            transient=ConnectionError,
            dead_letters="orders.dlq",
            on_exhausted=RetryTopics("orders.billing.retry", strategy=["1h"]),
            listeners=[Journal(config=_AWAY)],
        )
        thread = threading.Thread(target=consumer.run, args=(dependency,))
        kafka.fail("Produce", KafkaError.INVALID_REQUIRED_ACKS)
        with consumer, serve(consumer, 0, "127.0.0.1") as served:
            try:
                with Prometheus(tmp_path_factory.mktemp("ops"), served.port, _RULES) as server:
                    # A counter's first step is only seen by who has seen it at 0.
                    wait_until(lambda: server.query("linear_retry_events_total"), "a scrape")
                    thread.start()
                    wait_until(lambda: consumer.circuits[Scope()].offset == 2, "the first failure")
                    consumer.retry_now("orders", 0, 2).result(PATIENCE_S)
                    found["open"] = _asked(server, _QUERIES.keys() - _ONLY_BY_KEY, _HELD)
                    dependency.is_up = True
                    consumer.retry_now("orders", 0, 3).result(PATIENCE_S)
                    left = _QUERIES.keys() - _ONLY_BY_KEY - _ONLY_WHILE_OPEN
                    found["closed"] = _asked(server, left, _CLOSED)
                    found["groups"] = server.label_values("linear_retry_state", "group")
                    found["rules"], found["target"] = _evaluated(server), server.target()
            finally:
                consumer.stop()
                if thread.ident is not None:
                    thread.join(PATIENCE_S)
        yield found


def _asked(server: Prometheus, expected: set[str], condition: str) -> _Seen:
    """Once `condition` holds, what is expected has an answer, and nothing else has one any more.

    All at one moment, which lies so far back that every scrape before it has come to its end.
    """

    def answers() -> _Seen | None:
        at_s = time.time() - SCRAPE_S
        given = {name: server.query(query, at_s) for name, query in _QUERIES.items()}
        is_so = expected == {name for name, series in given.items() if series}
        return given if is_so and server.query(condition, at_s) else None

    return wait_until(answers, f"answers to {sorted(expected)}", server.target)


def _evaluated(server: Prometheus) -> list[dict[str, Any]]:
    """Once an alert has come."""
    wait_until(lambda: "firing" in {rule["state"] for rule in server.rules()}, "an alert")
    return server.rules()


def _values(series: list[dict[str, Any]]) -> dict[tuple[str, ...], float]:
    """By all labels but the instance, in the order of their names."""
    return {
        tuple(text for name, text in sorted(one["metric"].items()) if name != "instance"): float(
            one["value"][1]
        )
        for one in series
    }


def test_the_scrape_is_taken(seen: dict[str, Any]) -> None:
    """Whole, without a line that Prometheus has to leave out."""
    assert ("up", "") == (seen["target"]["health"], seen["target"]["lastError"])
    assert ["billing"] == seen["groups"]


def test_while_it_is_open(seen: dict[str, Any]) -> None:
    """Each panel has something to show, and it is what is the case."""
    panels = {name: _values(series) for name, series in seen["open"].items()}
    assert {("billing", "open"): 1.0} == panels["State A"]
    assert {("billing",): 1.0} == panels["Open circuits A"]
    assert 0 <= panels["Open for A"]["billing",] < 600
    assert 3000 < panels["Next attempt in A"]["billing",] <= 3600
    assert {("billing",): 1.0} == panels["Failures of the held message A"]
    assert {("billing", "orders"): 2.0} == panels["Lag A"] == panels["Lag B"]
    assert {("billing", "failed"), ("billing", "succeeded")} == panels["Attempts A"].keys()
    assert {("billing", "permanent")} == panels["Dead letters A"].keys()
    sent = panels["Messages sent to retry topics A"]
    assert {("billing", "orders.billing.retry.1h")} == sent.keys()


def test_after_it_has_closed(seen: dict[str, Any]) -> None:
    """What is over is not shown any more."""
    panels = {name: _values(series) for name, series in seen["closed"].items()}
    assert {("billing", "consuming"): 1.0} == panels["State A"]
    assert {("billing",): 0.0} == panels["Open circuits A"]
    assert [] == [name for name in _ONLY_WHILE_OPEN if panels[name]]


def test_every_rule_can_be_evaluated(seen: dict[str, Any]) -> None:
    """By the server, on what it has scraped; of what has happened the alerts have come."""
    assert {"ok"} == {rule["health"] for rule in seen["rules"]}
    states = {rule["name"]: rule["state"] for rule in seen["rules"]}
    assert "firing" == states["LinearRetryDeadLetters"]
    assert "pending" == states["LinearRetryDeadLettersFail"]
    assert {"LinearRetryDeadLetters", "LinearRetryDeadLettersFail"} == {
        name for name, state in states.items() if state != "inactive"
    }


def test_a_machine_without_apt_is_shown_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a sentence; and nothing stays that would pass for Prometheus next time."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoPackageError, match=r"there is no apt-get .*: install it"):
        program("promtool", tmp_path / "cache")
    assert [] == list((tmp_path / "cache").iterdir())
