"""A consumer's metrics for Prometheus. Needs the extra `prometheus`."""

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import get_args

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from linear_retry.consumer.linear_consumer import LinearConsumer
from linear_retry.consumer.monitoring.counters import HANDLED_WITHIN_S, Counts
from linear_retry.consumer.monitoring.health import HealthState
from linear_retry.events import Event
from linear_retry.scope import Scope

__all__ = ["Metrics"]

_PLACE = ("group", "topic", "partition")
_OF_SEVERAL: dict[str, Callable[[Iterable[float]], float]] = {
    "linear_retry_open_circuits": sum,
    "linear_retry_ready": min,
    "linear_retry_circuit_retry_timestamp_seconds": min,
    "linear_retry_last_poll_timestamp_seconds": min,
}
"""What a gauge says of several consumers of one group; of the others it is the highest."""
_BY_PARTITION = {
    "linear_retry_dead_letter_failures": (
        "DeadLetterFailed",
        "Sendings of a dead letter that failed; the circuit is open, it is tried again",
    ),
    "linear_retry_skipped": ("Skipped", "Messages given up for good, on_permanent=skip"),
    "linear_retry_handler_too_slow": (
        "HandlerTooSlow",
        "Handlers that took longer than max.poll.interval.ms: what they did does not count",
    ),
    "linear_retry_limit_reached": ("LimitReached", "Messages held for the limit of dead letters"),
    "linear_retry_data_lost": ("DataLost", "Gaps: removed by the brokers before we had read it"),
}


class Metrics(Collector):
    """A collector for a registry of prometheus_client: `REGISTRY.register(Metrics(consumer))`.

    Of one consumer, or of several in one process; those of one group are told as one, for a series
    may be there once: counts are added up, it is ready where all are, and of times the longest wait
    and the next attempt are shown. Its labels are group, topic, partition, reason
    and the like, never a key or an offset. `topic` and `partition` are empty for a circuit that
    stops more than one. Everything is read when it is asked for, and the lag is asked of the
    brokers then, for `lag_timeout_s` at most for each consumer; a partition without an answer has
    no lag then. 0: no lag.
    """

    def __init__(self, *consumers: LinearConsumer, lag_timeout_s: float = 2.0) -> None:
        self._consumers = consumers
        self._lag_timeout_s = lag_timeout_s

    def describe(self) -> Iterable[Metric]:
        """The names, so that a registry refuses them twice. Nothing is asked of the brokers."""
        return self._families(0.0)

    def collect(self) -> Iterable[Metric]:
        """Everything as it is now."""
        return map(_once, self._families(self._lag_timeout_s))

    def _families(self, lag_timeout_s: float) -> Iterator[Metric]:
        counts = [(one.group_id, one.counts) for one in self._consumers]
        yield from self._of_health()
        yield from self._of_circuits()
        yield from _of_attempts(counts)
        yield from _of_waits(counts)
        yield from _of_events(counts)
        yield self._of_journals()
        lag = _gauge("linear_retry_lag", "Offsets that the group has still to read", _PLACE)
        for consumer in self._consumers if lag_timeout_s > 0 else ():
            for (topic, number), offsets in consumer.lag(lag_timeout_s).items():
                lag.add_metric([consumer.group_id, topic, str(number)], offsets)
        yield lag

    def _of_health(self) -> Iterator[Metric]:
        state = _gauge("linear_retry_state", "1 for the state that it is in", ("group", "state"))
        ready = _gauge("linear_retry_ready", "1: in its group, and not asked to stop", ("group",))
        polled = _gauge(
            "linear_retry_last_poll_timestamp_seconds",
            "When it last polled, in Unix time",
            ("group",),
        )
        for consumer in self._consumers:
            health, group = consumer.health(), consumer.group_id
            for name in get_args(HealthState):
                state.add_metric([group, name], name == health.state)
            ready.add_metric([group], health.ready)
            if health.polled_s is not None:
                polled.add_metric([group], time.time() - health.polled_s)
        yield from (state, ready, polled)

    def _of_circuits(self) -> Iterator[Metric]:
        count = _gauge("linear_retry_open_circuits", "Circuits that are not closed", ("group",))
        open_s = _gauge(
            "linear_retry_circuit_open_seconds", "For how long this circuit has been open", _PLACE
        )
        retry_at = _gauge(
            "linear_retry_circuit_retry_timestamp_seconds",
            "When it is tried again, in Unix time",
            _PLACE,
        )
        failures = _gauge(
            "linear_retry_circuit_failures", "How often the held message has failed", _PLACE
        )
        now = datetime.now(UTC)
        for consumer in self._consumers:
            group, views = consumer.group_id, consumer.circuits
            count.add_metric([group], sum(view.state != "closed" for view in views.values()))
            for scope, view in views.items():
                if view.since is not None and view.retry_at is not None:
                    labels = [group, *_labels(scope)]
                    open_s.add_metric(labels, max((now - view.since).total_seconds(), 0.0))
                    retry_at.add_metric(labels, view.retry_at.timestamp())
                    failures.add_metric(labels, view.failures or 0)
        yield from (count, open_s, retry_at, failures)

    def _of_journals(self) -> Metric:
        dropped = _counter(
            "linear_retry_journal_dropped",
            "Events that are not in this topic of a journal",
            ("group", "topic"),
        )
        for consumer in self._consumers:
            topics: dict[str, int] = {}
            for journal in consumer.journals:
                topics[journal.topic] = topics.get(journal.topic, 0) + journal.dropped
            for topic, times in topics.items():
                dropped.add_metric([consumer.group_id, topic], times)
        return dropped


def exposition(metrics: Metrics, accept: str) -> tuple[bytes, str]:
    """What a scrape gets, and its content type, by what it accepts."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(metrics)
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


def _once(family: Metric) -> Metric:
    """Each series once: Prometheus would keep one of two, and say nothing of the other."""
    merged = _OF_SEVERAL.get(family.name, max) if family.type == "gauge" else sum
    found: dict[tuple[str, ...], list[Sample]] = {}
    for sample in family.samples:
        found.setdefault((sample.name, *sample.labels.values()), []).append(sample)
    family.samples = [
        same[0]._replace(value=merged([one.value for one in same])) for same in found.values()
    ]
    return family


def _of_attempts(counts: list[tuple[str, Counts]]) -> Iterator[Metric]:
    attempts = _counter(
        "linear_retry_attempts", "Calls of the handler that came to an end", ("group", "outcome")
    )
    handling = HistogramMetricFamily(
        "linear_retry_handling_seconds",
        "Time that a batch (what is handled between two polls) was with the handler",
        labels=("group",),
    )
    for group, one in counts:
        attempts.add_metric([group, "succeeded"], one.succeeded)
        attempts.add_metric([group, "failed"], one.failed)
        handling.add_metric([group], _buckets(one.handled_within), one.handling_s)
    yield from (attempts, handling)


def _of_waits(counts: list[tuple[str, Counts]]) -> Iterator[Metric]:
    waits = _counter("linear_retry_waits", "Waits that began", _PLACE)
    waited_s = _counter(
        "linear_retry_wait_seconds",
        "Their delays, counted as they begin: planned, not past",
        _PLACE,
    )
    for group, one in counts:
        for (topic, number), times in one.waits.items():
            waits.add_metric([group, topic, str(number)], times)
        for (topic, number), delay_s in one.waited_s.items():
            waited_s.add_metric([group, topic, str(number)], delay_s)
    yield from (waits, waited_s)


def _of_events(counts: list[tuple[str, Counts]]) -> Iterator[Metric]:
    letters = _counter(
        "linear_retry_dead_letters", "Dead letters that were acknowledged", (*_PLACE, "reason")
    )
    closed = _counter("linear_retry_circuits_closed", "By what it came to", ("group", "outcome"))
    happened = _counter("linear_retry_events", "What happened, by event", ("group", "event"))
    for group, one in counts:
        # All from the start: Prometheus's `increase` does not see a series begin with a 1.
        names = {event.__name__: 0 for event in get_args(Event)}
        outcomes: dict[str, int] = {}
        for key, times in one.events.items():
            names[key.event] += times
            if key.event == "DeadLettered":
                letters.add_metric([group, *_of(key.topic, key.partition), key.reason], times)
            elif key.event == "CircuitClosed":
                outcomes[key.reason] = times
        for outcome, times in outcomes.items():
            closed.add_metric([group, outcome], times)
        for name, times in names.items():
            happened.add_metric([group, name], times)
    yield from (letters, closed, happened)
    for family, (event, text) in _BY_PARTITION.items():
        yield _events_of(counts, family, event, text)


def _events_of(
    counts: list[tuple[str, Counts]], family: str, event: str, text: str
) -> CounterMetricFamily:
    found = _counter(family, text, _PLACE)
    for group, one in counts:
        for key, times in one.events.items():
            if key.event == event:
                found.add_metric([group, *_of(key.topic, key.partition)], times)
    return found


def _buckets(handled_within: tuple[int, ...]) -> list[tuple[str, float]]:
    """As Prometheus wants them: each with all that were faster."""
    found, total = [], 0
    for limit_s, times in zip(HANDLED_WITHIN_S, handled_within, strict=True):
        total += times
        found.append(("+Inf" if limit_s == float("inf") else str(limit_s), float(total)))
    return found


def _labels(scope: Scope) -> tuple[str, str]:
    return _of(scope.topic, scope.partition)


def _of(topic: str | None, partition: int | None) -> tuple[str, str]:
    return topic or "", "" if partition is None else str(partition)


def _gauge(name: str, text: str, labels: tuple[str, ...]) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=labels)


def _counter(name: str, text: str, labels: tuple[str, ...]) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, labels=labels)
