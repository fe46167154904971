"""The alert rules and the dashboard ask for metrics that exist."""

import json
import re
from typing import Any, get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families

from docs.generators.metrics import exported_name, labels_of
from linear_retry import Event
from linear_retry.cli.dlq.stats import exposition
from linear_retry.dlq import State
from linear_retry.dlq.stats import stats_of
from linear_retry.monitoring.metrics import Metrics
from linear_retry.scheduler.http.metrics import StoreMetrics
from linear_retry.store.database import Database
from tests.docs.markdown import code, page, table

_ALERTS = page("ops/alerts.yml")
_DASHBOARD: dict[str, Any] = json.loads(page("ops/dashboard.json"))
_PARTS = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
_BACKLOG = list(text_string_to_metric_families("\n".join(exposition({"orders.dlq": stats_of([])}))))
_STORE = list(StoreMetrics(Database("sqlite:////nowhere/store.sqlite3")).describe())
_SAMPLES = {
    family.name + part: family
    for family in (*Metrics().describe(), *_STORE, *_BACKLOG)
    for part in _PARTS[family.type]
}
_LABELS = {exported_name(one): set(labels_of(one)) for one in (*Metrics().describe(), *_STORE)} | {
    code(row[0])[0]: set(code(row[1]))
    for row in table(page("docs/reference/metrics.md"), "backlog metric")
}
_NAME = re.compile(r"linear_retry_\w+")
_EXPRESSIONS = [
    *re.findall(r"^ {8}expr: (?:>-\n)?((?:.|\n {10})*)", _ALERTS, re.MULTILINE),
    *(target["expr"] for panel in _DASHBOARD["panels"] for target in panel["targets"]),
]


def test_there_is_an_expression_for_each() -> None:
    """Else the rest of this file would ask about nothing."""
    targets = sum(len(panel["targets"]) for panel in _DASHBOARD["panels"])
    assert len(_EXPRESSIONS) == _ALERTS.count("- alert: ") + targets
    assert [] == [one for one in _EXPRESSIONS if not _NAME.search(one)]


@pytest.mark.parametrize("expression", _EXPRESSIONS)
def test_every_metric_exists(expression: str) -> None:
    """Under the name of a sample: with _total, _bucket, _sum or _count where it has one."""
    assert [] == [name for name in _NAME.findall(expression) if name not in _SAMPLES]


@pytest.mark.parametrize("expression", _EXPRESSIONS)
def test_every_label_exists(expression: str) -> None:
    """What is grouped by, or selected, is a label of each metric; `instance` is Prometheus's."""
    wanted = {
        label
        for group in re.findall(r"(?:by|on) \(([^)]*)\)", expression)
        for label in group.split(", ")
    }
    wanted |= set(re.findall(r"(\w+)=~?\"", expression))
    missing = {
        name: wanted - {"instance", "le"} - _labels(name) for name in _NAME.findall(expression)
    }
    assert {} == {name: labels for name, labels in missing.items() if labels}


def _labels(sample: str) -> set[str]:
    return _LABELS[exported_name(_SAMPLES[sample])]


def test_events_that_are_asked_for_exist() -> None:
    """And are there, as 0, before the first of them: `increase` does not see a series begin."""
    asked = set(re.findall(r'event="(\w+)"', "\n".join(_EXPRESSIONS)))
    assert asked
    assert set() == asked - {event.__name__ for event in get_args(Event)}


def test_states_that_are_asked_for_exist() -> None:
    """An alert on a state that there is not would never come."""
    asked = set(re.findall(r'state="(\w+)"', "\n".join(_EXPRESSIONS)))
    reported = {code(row[0])[0] for row in table(page("docs/operations/on-call.md"), "`state`")}
    reported |= set(State)
    assert set() == asked - reported
    assert {"stuck", "dead"} <= asked


def test_every_alert_is_explained() -> None:
    """docs/operations/on-call.md says of each, and of no other, what it means and what to do."""
    reported = [code(row[0])[0] for row in table(page("docs/operations/on-call.md"), "alert")]
    assert re.findall(r"- alert: (\w+)", _ALERTS) == reported
