"""What the store holds and what an instance does, as metrics for Prometheus."""

import threading
import time
from collections import Counter
from collections.abc import Iterable
from typing import Protocol, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from linear_retry.consumer.linear_consumer import LinearConsumer
from linear_retry.monitoring.metrics import Metrics
from linear_retry.store.database import Database
from linear_retry.store.listing import statistics
from linear_retry.store.records import Service

_PREFIX = "linear_retry_store_"
_SHARE = 20
"""A count takes up to a second with many lanes: it is repeated after 20 times as long."""


class StoreMetrics(Collector):
    """Counts what waits, by destination, and what is dead, by reason."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._metrics: list[Metric] = []
        self._fresh_until_s = 0.0

    def describe(self) -> Iterable[Metric]:
        """The names, so that a registry refuses duplicates. The store is not asked."""
        return _gauges().values()

    def collect(self) -> Iterable[Metric]:
        """Returns the latest counts. Raises `StoreError`."""
        with self._lock:
            begun_s = time.monotonic()
            if begun_s >= self._fresh_until_s:
                self._metrics = list(_families(self._database))
                took_s = time.monotonic() - begun_s
                self._fresh_until_s = begun_s + _SHARE * took_s
            return self._metrics


class Served(Protocol):
    """A service that sends what is in the store: the scheduler, or the sender of outboxes."""

    @property
    def name(self) -> Service:
        """Whose messages it sends."""

    @property
    def sent(self) -> int:
        """The number of messages that it has sent."""

    @property
    def intake(self) -> LinearConsumer | None:
        """The consumer that stores messages, for its metrics; None: it has none, or not yet."""

    def not_alive(self) -> str | None:
        """Returns why the process should be started again, for a probe; None: it should not."""

    def not_ready(self) -> str | None:
        """Returns why it does not work now, for a probe; None while it does."""


class ServiceMetrics(Collector):
    """What this instance does: the metrics of a scheduler's intake, and what it has sent."""

    def __init__(self, service: Served) -> None:
        self._service = service

    def collect(self) -> Iterable[Metric]:
        """Returns the current values; those of the intake once it has begun."""
        text = "Messages that this instance has sent"
        sent = CounterMetricFamily(f"{_PREFIX}sent", text, labels=("service",))
        sent.add_metric((self._service.name,), self._service.sent)
        yield sent
        if self._service.intake is not None:
            yield from Metrics(self._service.intake).collect()


def _gauges() -> dict[str, GaugeMetricFamily]:
    families = (
        _gauge("messages_waiting", "Messages that wait, up to 10,000 a lane", "destination"),
        _gauge("messages_due", "Messages that are due, up to 10,000 a lane", "destination"),
        _gauge("first_due_timestamp_seconds", "Earliest due time, in Unix time", "destination"),
        _gauge("lanes_held", "Lanes on hold", "destination"),
        _gauge("dead_letters", "Dead letters, of the latest 100,000", "reason"),
    )
    return {family.name.removeprefix(_PREFIX): family for family in families}


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{_PREFIX}{name}", text, labels=("service", *labels))


def _families(database: Database) -> Iterable[Metric]:
    gauges = _gauges()
    with database.reading() as connection:
        for service in get_args(Service):
            for each in statistics.waiting(database, connection, service):
                labels = (service, each.destination)
                gauges["messages_waiting"].add_metric(labels, each.waiting)
                gauges["messages_due"].add_metric(labels, each.due)
                first_s = each.oldest_due_ms / 1000
                gauges["first_due_timestamp_seconds"].add_metric(labels, first_s)
            held = Counter(e.destination for e in statistics.held(connection, service))
            for destination, lanes in held.items():
                gauges["lanes_held"].add_metric((service, destination), lanes)
            for reason, count in statistics.dead_by_reason(connection, service).items():
                gauges["dead_letters"].add_metric((service, reason), count)
    return gauges.values()
