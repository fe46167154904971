"""What the store holds, as metrics for Prometheus."""

import threading
import time
from collections import Counter
from collections.abc import Iterable
from typing import get_args

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from linear_retry.store.database import Database
from linear_retry.store.listing import dead_letters, statistics
from linear_retry.store.listing.filters import DeadLetterFilter
from linear_retry.store.records import Service

_PREFIX = "linear_retry_store_"
_SHARE = 20
"""A count of 10,000,000 messages takes seconds: it is repeated after 20 times as long."""


class StoreMetrics(Collector):
    """Counts what waits and what is dead; the labels are services and destinations."""

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


def exposition(metrics: StoreMetrics, accept: str) -> tuple[bytes, str]:
    """The body of a scrape and its content type, according to what the request accepts."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(metrics)
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


def _gauges() -> dict[str, GaugeMetricFamily]:
    families = (
        _gauge("messages_waiting", "Messages that wait", "destination"),
        _gauge("messages_due", "Messages that are due, and not sent yet", "destination"),
        _gauge("first_due_timestamp_seconds", "Earliest due time, in Unix time", "destination"),
        _gauge("lanes_held", "Lanes on hold", "destination"),
        _gauge("dead_letters", "Dead letters in the store"),
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
            held = Counter(e.destination for e in statistics.held(database, connection, service))
            for destination, lanes in held.items():
                gauges["lanes_held"].add_metric((service, destination), lanes)
            dead = dead_letters.count(database, connection, DeadLetterFilter(service=service))
            gauges["dead_letters"].add_metric((service,), dead)
    return gauges.values()
