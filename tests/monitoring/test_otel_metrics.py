"""OpenTelemetry collects what Prometheus scrapes, under the names of its conventions."""

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import pytest
from confluent_kafka import Message
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    HistogramDataPoint,
    InMemoryMetricReader,
    NumberDataPoint,
)

from linear_retry import Backlog
from linear_retry.monitoring.metrics import Metrics
from linear_retry.monitoring.otel_metrics import OtelMetrics
from linear_retry.scope import Partition
from tests.docs.markdown import blocks, page
from tests.kafka_operations import wait_until
from tests.living import broker_of_orders, living, patient_consumer
from tests.patience import PATIENCE_S

_RENAMED = {
    "messaging.consumer.group.name": "group",
    "messaging.destination.name": "topic",
    "messaging.destination.partition.id": "partition",
}
_MOVING = ("last_poll_timestamp_seconds", "circuit_open_seconds")
Values = dict[str, dict[frozenset[tuple[str, str]], float]]


def _fail_at_two(message: Message) -> None:
    if message.offset() == 2:
        raise ConnectionError("down")


def _collected(reader: InMemoryMetricReader) -> Values:
    """By the names in Prometheus, of the metrics and of their labels."""
    data = reader.get_metrics_data()
    assert data is not None
    found: Values = {}
    for scope in (each for resource in data.resource_metrics for each in resource.scope_metrics):
        assert "linear_retry" == scope.scope.name
        assert scope.schema_url is not None
        assert scope.schema_url.endswith("1.45.0")
        for metric in scope.metrics:
            assert ("s" if metric.name.endswith("_seconds") else "1") == metric.unit
            values = found.setdefault(metric.name.removeprefix("linear_retry."), {})
            for point in metric.data.data_points:
                if isinstance(point, HistogramDataPoint):
                    values[_labels(point.attributes or {})] = point.count
                    values |= _buckets(point)
                else:
                    assert isinstance(point, NumberDataPoint)
                    values[_labels(point.attributes or {})] = point.value
    return found


def _labels(attributes: Mapping[str, object]) -> frozenset[tuple[str, str]]:
    return frozenset(
        (_RENAMED.get(name, name.removeprefix("linear_retry.")), str(value))
        for name, value in attributes.items()
    )


def _buckets(point: HistogramDataPoint) -> dict[frozenset[tuple[str, str]], float]:
    """As Prometheus has them: so many at most as long as each bound."""
    bounds = [*map(str, point.explicit_bounds), "+Inf"]
    counts = map(float, accumulate(point.bucket_counts))
    labels = _labels(point.attributes or {})
    return {labels | {("le", bound)}: count for bound, count in zip(bounds, counts, strict=True)}


def _scraped(metrics: Metrics) -> Values:
    found: Values = {}
    for family in metrics.collect():
        for sample in family.samples:
            name = family.name.removeprefix("linear_retry_")
            if sample.name.endswith("_sum"):
                continue
            labels = frozenset((key, text) for key, text in sample.labels.items() if text)
            found.setdefault(name, {})[labels] = sample.value
    return found


def test_it_says_what_prometheus_is_told() -> None:
    """While a message is held, and after all is handled: counts, times, lag; each series once."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    with broker_of_orders() as kafka:
        kafka.produce("orders", ["0", "1", "2", "3"])
        consumer = patient_consumer(kafka.bootstrap)
        OtelMetrics(consumer, lag_timeout_s=PATIENCE_S, meter_provider=provider)
        metrics = Metrics(consumer, lag_timeout_s=PATIENCE_S)
        with living(consumer, _fail_at_two):
            wait_until(lambda: consumer.health().state == "open", "a circuit is open")
            wait_until(lambda: consumer.lag() == {("orders", 0): 2}, "the rest is committed")
            collected, scraped = _collected(reader), _scraped(metrics)
            for name in _MOVING:
                assert collected.pop(name).keys() == scraped.pop(name).keys()
            assert scraped == collected
            assert {1.0} == {*collected["circuit_failures"].values()}
            assert {2.0} == {*collected["lag"].values()}
    provider.shutdown()


def test_a_collection_asks_the_brokers_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many instruments there are: each question for the lag may take two seconds."""
    (code,) = blocks(page("docs/reference/metrics.md"), "python")
    names: dict[str, Any] = {}
    exec(code, names)
    reader, asked = InMemoryMetricReader(), list[float]()
    provider = MeterProvider([reader])
    with broker_of_orders() as kafka, patient_consumer(kafka.bootstrap) as consumer:

        def backlog(timeout_s: float) -> dict[Partition, Backlog]:
            asked.append(timeout_s)
            return {}

        monkeypatch.setattr(consumer, "backlog", backlog)
        names["export"](consumer, provider)
        _collected(reader)
        assert [2.0] == asked
    provider.shutdown()
