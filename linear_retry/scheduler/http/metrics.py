"""What the store holds, as metrics for Prometheus."""

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import get_args

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from linear_retry.store.database import Database
from linear_retry.store.listing import dead_letters, statistics
from linear_retry.store.listing.filters import DeadLetterFilter
from linear_retry.store.records import Service

_SHARE = 20
"""A count of 10,000,000 messages takes seconds: it is repeated after 20 times as long."""


class StoreMetrics(Collector):
    """Counts what waits and what is dead; the labels are services and destinations."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._metrics: list[Metric] = []
        self._fresh_until_s = 0.0

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


def _families(database: Database) -> Iterator[Metric]:
    with database.reading() as connection:
        found = {
            service: (
                statistics.waiting(database, connection, service),
                Counter(
                    each.destination for each in statistics.held(database, connection, service)
                ),
                dead_letters.count(database, connection, DeadLetterFilter(service=service)),
            )
            for service in get_args(Service)
        }
    waiting = _gauge("messages_waiting", "Messages that wait", "destination")
    due = _gauge("messages_due", "Messages that are due, and not sent yet", "destination")
    first = _gauge("first_due_timestamp_seconds", "Earliest due time, in Unix time", "destination")
    held = _gauge("lanes_held", "Lanes on hold", "destination")
    dead = _gauge("dead_letters", "Dead letters in the store")
    for service, (of_destinations, held_lanes, dead_count) in found.items():
        for each in of_destinations:
            waiting.add_metric((service, each.destination), each.waiting)
            due.add_metric((service, each.destination), each.due)
            first.add_metric((service, each.destination), each.oldest_due_ms / 1000)
        for destination, lanes in held_lanes.items():
            held.add_metric((service, destination), lanes)
        dead.add_metric((service,), dead_count)
    yield from (waiting, due, first, held, dead)


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"linear_retry_store_{name}", text, labels=("service", *labels))
