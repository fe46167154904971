"""Exports a consumer's metrics to OpenTelemetry. Needs the extra `otel`."""

import time
from collections.abc import Callable, Iterable
from functools import partial
from threading import Lock

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

from linear_retry.consumer.linear_consumer import LinearConsumer
from linear_retry.consumer.operations.monitor import HANDLED_WITHIN_S
from linear_retry.monitoring.samples import BATCHES, BATCHES_TEXT, FAMILIES, Gathered
from linear_retry.monitoring.tracing import CONVENTIONS

__all__ = ["OtelMetrics"]

_NAMES = {
    "group": "messaging.consumer.group.name",
    "topic": "messaging.destination.name",
    "partition": "messaging.destination.partition.id",
}
_ONE_COLLECTION_S = 0.5
"""All instruments of one collection are asked one after another."""


class OtelMetrics:
    """The metrics of `Metrics`, as instruments: `OtelMetrics(consumer)` once.

    `linear_retry_lag` is `linear_retry.lag` here. Group, topic and partition have the names of
    OpenTelemetry's conventions for messaging, version 1.45, and are left out where they are empty;
    other labels have ours, such as `linear_retry.reason`. For one consumer, or several in one
    process, and read at each collection, as there; the histogram is recorded with each batch.
    """

    def __init__(
        self,
        *consumers: LinearConsumer,
        lag_timeout_s: float = 2.0,
        meter_provider: metrics.MeterProvider | None = None,
    ) -> None:
        """`meter_provider`: by default the global one."""
        self._consumers = consumers
        self._lag_timeout_s = lag_timeout_s
        self._lock = Lock()
        self._gathered = Gathered((), 0.0)
        self._gathered_at_s = float("-inf")
        meter = metrics.get_meter(
            "linear_retry", meter_provider=meter_provider, schema_url=CONVENTIONS
        )
        makes = {
            "gauge": meter.create_observable_gauge,
            "counter": meter.create_observable_counter,
        }
        for name, family in FAMILIES.items():
            makes[family.kind](
                f"linear_retry.{name}",
                callbacks=[self._observing(name, ("group", *family.labels))],
                unit="s" if name.endswith("seconds") else "1",
                description=family.text,
            )
        batches = meter.create_histogram(
            f"linear_retry.{BATCHES}",
            unit="s",
            description=BATCHES_TEXT,
            explicit_bucket_boundaries_advisory=HANDLED_WITHIN_S[:-1],
        )
        for consumer in consumers:
            attributes = {_NAMES["group"]: consumer.group_id}
            consumer._on_batch(partial(batches.record, attributes=attributes))

    def _observing(
        self, name: str, labels: tuple[str, ...]
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        keys = [_NAMES.get(label, f"linear_retry.{label}") for label in labels]

        def observe(_: CallbackOptions) -> Iterable[Observation]:
            for given, value in self._now().values[name].items():
                pairs = zip(keys, given, strict=True)
                yield Observation(value, {key: text for key, text in pairs if text})

        return observe

    def _now(self) -> Gathered:
        """Returns the values of this collection, which are gathered once for all instruments."""
        with self._lock:
            now_s = time.monotonic()
            if now_s > self._gathered_at_s + _ONE_COLLECTION_S:
                self._gathered = Gathered(self._consumers, self._lag_timeout_s)
                self._gathered_at_s = time.monotonic()
            return self._gathered
