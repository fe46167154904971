"""Exports a consumer's metrics to Prometheus. Needs the extra `prometheus`."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import accumulate
from operator import add
from typing import NamedTuple, TypeAlias, get_args

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from linear_retry.consumer.linear_consumer import LinearConsumer
from linear_retry.consumer.operations.health import HealthState
from linear_retry.consumer.operations.lag import Backlog
from linear_retry.consumer.operations.monitor import HANDLED_WITHIN_S, Counts
from linear_retry.events import Event
from linear_retry.scope import Partition

__all__ = ["Metrics"]

_PLACE = ("topic", "partition")
_Samples: TypeAlias = Iterator[tuple[str, tuple[str, ...], float]]
"""Name of the family, label values without the group, and the value."""


class _Family(NamedTuple):
    """A metric; `merged` is how the values of two consumers of one group are merged."""

    kind: type[CounterMetricFamily | GaugeMetricFamily]
    text: str
    labels: tuple[str, ...] = ()
    merged: Callable[[float, float], float] = add


_GAUGE, _COUNTER = GaugeMetricFamily, CounterMetricFamily
_FAMILIES = {
    "state": _Family(_GAUGE, "1 for the current state, else 0", ("state",), max),
    "ready": _Family(_GAUGE, "1: in its group, and not stopping", merged=min),
    "last_poll_timestamp_seconds": _Family(
        _GAUGE, "Time of the last poll, in Unix time", merged=min
    ),
    "open_circuits": _Family(_GAUGE, "Circuits that are not closed, without those of single keys"),
    "circuit_open_seconds": _Family(_GAUGE, "How long this circuit has been open", _PLACE, max),
    "circuit_retry_timestamp_seconds": _Family(
        _GAUGE, "Time of the next attempt, in Unix time", _PLACE, min
    ),
    "circuit_failures": _Family(_GAUGE, "Failures of the held message", _PLACE, max),
    "held_keys": _Family(_GAUGE, "Keys that wait after a failure, while others go on", _PLACE),
    "blocked_keys": _Family(_GAUGE, "Of these, those that wait for an operator", _PLACE),
    "oldest_held_seconds": _Family(_GAUGE, "How long the first of them has waited", _PLACE, max),
    "attempts": _Family(_COUNTER, "Completed calls of the handler", ("outcome",)),
    "waits": _Family(_COUNTER, "Waits started", _PLACE),
    "wait_seconds": _Family(_COUNTER, "Total delay of these waits, counted as each starts", _PLACE),
    "dead_letters": _Family(_COUNTER, "Acknowledged dead letters", (*_PLACE, "reason")),
    "sent_to_retry": _Family(
        _COUNTER, "Messages that a retry topic acknowledged", (*_PLACE, "retry_topic")
    ),
    "messages_waiting": _Family(_GAUGE, "Messages of retry topics that wait in memory until due"),
    "next_retry_timestamp_seconds": _Family(
        _GAUGE, "When the first of these is due, in Unix time", merged=min
    ),
    "circuits_closed": _Family(_COUNTER, "Circuits closed, by outcome", ("outcome",)),
    "events": _Family(_COUNTER, "Events emitted, by event", ("event",)),
    "dead_letter_failures": _Family(
        _COUNTER,
        "Failed deliveries of dead letters; the circuit stays open, and they are retried",
        _PLACE,
    ),
    "skipped": _Family(_COUNTER, "Messages given up for good, on_permanent=skip", _PLACE),
    "handler_too_slow": _Family(
        _COUNTER,
        "Handler calls longer than max.poll.interval.ms, whose outcome does not count",
        _PLACE,
    ),
    "limit_reached": _Family(
        _COUNTER, "Messages held by the limit of what leaves the line", _PLACE
    ),
    "data_lost": _Family(
        _COUNTER, "Gaps: offsets that were removed or skipped before they were read", _PLACE
    ),
    "journal_dropped": _Family(_COUNTER, "Events missing from this journal topic", ("topic",)),
    "lag": _Family(_GAUGE, "Offsets that the group has yet to read", _PLACE, max),
    "unfinished": _Family(_GAUGE, "Of these, those that are not done", _PLACE, max),
    "done_above_commit": _Family(
        _GAUGE, "Of these, those that are done: a note beside the committed offset says so", _PLACE
    ),
    "waiting_behind_held": _Family(_GAUGE, "Messages that wait behind held keys", _PLACE),
}
_BY_PARTITION = {
    "DeadLetterFailed": "dead_letter_failures",
    "Skipped": "skipped",
    "HandlerTooSlow": "handler_too_slow",
    "LimitReached": "limit_reached",
    "DataLost": "data_lost",
}


class Metrics(Collector):
    """A collector for a registry of prometheus_client: `REGISTRY.register(Metrics(consumer))`.

    For one consumer, or several in one process; those of one group are merged, since a series may
    occur only once: counts are added up, the group is ready if all are, and of times the longest
    wait and the next attempt are shown. Labels are group, topic, partition, reason and the like,
    never a key or an offset. `topic` and `partition` are empty for a circuit that pauses more than
    one. Everything is read at the scrape; the lag is asked of the brokers then, for at most
    `lag_timeout_s` for each consumer; a partition without an answer has no lag. 0: no lag.
    """

    def __init__(self, *consumers: LinearConsumer, lag_timeout_s: float = 2.0) -> None:
        self._consumers = consumers
        self._lag_timeout_s = lag_timeout_s

    def describe(self) -> Iterable[Metric]:
        """The names, so that a registry refuses duplicates. The brokers are not asked."""
        return self._families(0.0)

    def collect(self) -> Iterable[Metric]:
        """The current values of all metrics."""
        return self._families(self._lag_timeout_s)

    def _families(self, lag_timeout_s: float) -> Iterator[Metric]:
        found: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in _FAMILIES}
        handled: dict[str, list[Counts]] = {}
        for consumer in self._consumers:
            counts = consumer.counts
            handled.setdefault(consumer.group_id, []).append(counts)
            for name, labels, value in _samples(consumer, counts, lag_timeout_s):
                # Each series once: of duplicates, Prometheus would keep one and hide the other.
                series, key = found[name], (consumer.group_id, *labels)
                merged = _FAMILIES[name].merged
                series[key] = merged(series[key], value) if key in series else value
        for name, family in _FAMILIES.items():
            labels = ("group", *family.labels)
            metric = family.kind(f"linear_retry_{name}", family.text, labels=labels)
            for key, value in found[name].items():
                metric.add_metric(key, value)
            yield metric
        yield _handling(handled)


def exposition(collectors: Iterable[Collector], accept: str) -> tuple[bytes, str]:
    """The body of a scrape and its content type, according to what the request accepts."""
    registry = CollectorRegistry(auto_describe=False)
    for each in collectors:
        registry.register(each)
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


def _samples(consumer: LinearConsumer, counts: Counts, lag_timeout_s: float) -> _Samples:
    yield from _of_health(consumer)
    yield from _of_circuits(consumer)
    yield "attempts", ("succeeded",), counts.succeeded
    yield "attempts", ("failed",), counts.failed
    for partition, times in counts.waits.items():
        yield "waits", _place(*partition), times
    for partition, delay_s in counts.waited_s.items():
        yield "wait_seconds", _place(*partition), delay_s
    yield from _of_events(counts)
    for journal in consumer.journals:
        yield "journal_dropped", (journal.topic,), journal.dropped
    for partition, backlog in _backlog(consumer, lag_timeout_s).items():
        place = _place(*partition)
        yield "lag", place, backlog.lag
        yield "unfinished", place, backlog.unfinished
        yield "done_above_commit", place, backlog.done_above
        yield "waiting_behind_held", place, backlog.waiting


def _backlog(consumer: LinearConsumer, timeout_s: float) -> Mapping[Partition, Backlog]:
    return consumer.backlog(timeout_s) if timeout_s > 0 else {}


def _of_health(consumer: LinearConsumer) -> _Samples:
    health = consumer.health()
    for state in get_args(HealthState):
        yield "state", (state,), state == health.state
    yield "ready", (), health.ready
    if health.polled_s is not None:
        yield "last_poll_timestamp_seconds", (), time.time() - health.polled_s
    yield "messages_waiting", (), health.waiting
    if health.waiting and health.until is not None and health.state == "consuming":
        yield "next_retry_timestamp_seconds", (), health.until.timestamp()


def _of_circuits(consumer: LinearConsumer) -> _Samples:
    now, views = datetime.now(UTC), consumer.circuits
    wide = [view for scope, view in views.items() if scope.key is None]
    yield "open_circuits", (), sum(view.state != "closed" for view in wide)
    keys = [(scope, view) for scope, view in views.items() if scope.key is not None]
    held = Counter((scope.topic, scope.partition) for scope, _ in keys)
    blocked = Counter(
        (scope.topic, scope.partition) for scope, view in keys if view.waits_for == "operator"
    )
    for partition, times in held.items():
        yield "held_keys", _place(*partition), times
        yield "blocked_keys", _place(*partition), blocked[partition]
    for scope, view in views.items():
        if view.since is None:
            continue
        place, open_s = _place(scope.topic, scope.partition), (now - view.since).total_seconds()
        if scope.key is not None:
            yield "oldest_held_seconds", place, max(open_s, 0.0)
        elif view.retry_at is not None:
            yield "circuit_open_seconds", place, max(open_s, 0.0)
            yield "circuit_retry_timestamp_seconds", place, view.retry_at.timestamp()
            yield "circuit_failures", place, view.failures or 0


def _of_events(counts: Counts) -> _Samples:
    # All from the start: Prometheus's `increase` misses the first 1 of a new series.
    yield from (("events", (event.__name__,), 0) for event in get_args(Event))
    for (event, topic, partition, reason), times in counts.events.items():
        yield "events", (event,), times
        if event == "DeadLettered":
            yield "dead_letters", (*_place(topic, partition), reason), times
        elif event == "SentToRetry":
            yield "sent_to_retry", (*_place(topic, partition), reason), times
        elif event == "CircuitClosed":
            yield "circuits_closed", (reason,), times
        elif event in _BY_PARTITION:
            yield _BY_PARTITION[event], _place(topic, partition), times


def _handling(counts_of: dict[str, list[Counts]]) -> Metric:
    family = HistogramMetricFamily(
        "linear_retry_batch_handling_seconds",
        "Time of each batch with the handler: 1 to 500 messages, all between two polls",
        labels=("group",),
    )
    limits = ["+Inf" if limit_s == float("inf") else str(limit_s) for limit_s in HANDLED_WITHIN_S]
    for group, counts in counts_of.items():
        within = map(sum, zip(*(one.handled_within for one in counts), strict=True))
        buckets = list(zip(limits, map(float, accumulate(within)), strict=True))
        family.add_metric([group], buckets, sum(one.handling_s for one in counts))
    return family


def _place(topic: str | None, partition: int | None) -> tuple[str, str]:
    return topic or "", "" if partition is None else str(partition)
