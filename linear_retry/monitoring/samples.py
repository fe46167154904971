"""What a consumer's metrics are called, and their values: for Prometheus and OpenTelemetry."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from operator import add
from typing import Literal, NamedTuple, TypeAlias, get_args

from linear_retry.consumer.linear_consumer import LinearConsumer
from linear_retry.consumer.operations.health import HealthState
from linear_retry.consumer.operations.lag import Backlog
from linear_retry.consumer.operations.monitor import Counts
from linear_retry.events import Event
from linear_retry.scope import Partition

Kind: TypeAlias = Literal["counter", "gauge"]
_PLACE = ("topic", "partition")
_Samples: TypeAlias = Iterator[tuple[str, tuple[str, ...], float]]
"""Name of the family, label values without the group, and the value."""


class Family(NamedTuple):
    """A metric; `merged` is how the values of two consumers of one group are merged."""

    kind: Kind
    text: str
    labels: tuple[str, ...] = ()
    merged: Callable[[float, float], float] = add


FAMILIES = {
    "state": Family("gauge", "1 for the current state, else 0", ("state",), max),
    "ready": Family("gauge", "1: in its group, and not stopping", merged=min),
    "last_poll_timestamp_seconds": Family(
        "gauge", "Time of the last poll, in Unix time", merged=min
    ),
    "open_circuits": Family("gauge", "Circuits that are not closed, without those of single keys"),
    "circuit_open_seconds": Family("gauge", "How long this circuit has been open", _PLACE, max),
    "paused_seconds": Family("gauge", "How long an operator has paused this", _PLACE, max),
    "circuit_retry_timestamp_seconds": Family(
        "gauge", "Time of the next attempt, in Unix time", _PLACE, min
    ),
    "circuit_failures": Family("gauge", "Failures of the held message", _PLACE, max),
    "held_keys": Family("gauge", "Keys that wait after a failure, while others go on", _PLACE),
    "blocked_keys": Family("gauge", "Of these, those that wait for an operator", _PLACE),
    "oldest_held_seconds": Family("gauge", "How long the first of them has waited", _PLACE, max),
    "attempts": Family("counter", "Completed calls of the handler", ("outcome",)),
    "waits": Family("counter", "Waits started", _PLACE),
    "wait_seconds": Family("counter", "Total delay of these waits, counted as each starts", _PLACE),
    "dead_letters": Family("counter", "Acknowledged dead letters", (*_PLACE, "reason")),
    "sent_to_retry": Family(
        "counter", "Messages that a retry topic acknowledged", (*_PLACE, "retry_topic")
    ),
    "messages_waiting": Family("gauge", "Messages of retry topics that wait in memory until due"),
    "next_retry_timestamp_seconds": Family(
        "gauge", "When the first of these is due, in Unix time", merged=min
    ),
    "circuits_closed": Family("counter", "Circuits closed, by outcome", ("outcome",)),
    "events": Family("counter", "Events emitted, by event", ("event",)),
    "dead_letter_failures": Family(
        "counter",
        "Failed deliveries of dead letters; the circuit stays open, and they are retried",
        _PLACE,
    ),
    "skipped": Family("counter", "Messages given up for good, on_permanent=skip", _PLACE),
    "handler_too_slow": Family(
        "counter",
        "Handler calls longer than max.poll.interval.ms, whose outcome does not count",
        _PLACE,
    ),
    "limit_reached": Family(
        "counter", "Messages held by the limit of what leaves the line", _PLACE
    ),
    "data_lost": Family(
        "counter", "Gaps: offsets that were removed or skipped before they were read", _PLACE
    ),
    "journal_dropped": Family("counter", "Events missing from this journal topic", ("topic",)),
    "lag": Family("gauge", "Offsets that the group has yet to read", _PLACE, max),
    "unfinished": Family("gauge", "Of these, those that are not done", _PLACE, max),
    "done_above_commit": Family(
        "gauge", "Of these, those that are done: a note beside the committed offset says so", _PLACE
    ),
    "waiting_behind_held": Family("gauge", "Messages that wait behind held keys", _PLACE),
}
BATCHES = "batch_handling_seconds"
BATCHES_TEXT = "Time of each batch with the handler: 1 to 500 messages, all between two polls"
"""The only histogram."""
_BY_PARTITION = {
    "DeadLetterFailed": "dead_letter_failures",
    "Skipped": "skipped",
    "HandlerTooSlow": "handler_too_slow",
    "LimitReached": "limit_reached",
    "DataLost": "data_lost",
}


class Gathered:
    """The values of all metrics at one moment, those of consumers of one group merged.

    `values` has them by the metric's name and the values of its labels, the group first; `counts`
    those of each group's consumers.
    """

    def __init__(self, consumers: Iterable[LinearConsumer], lag_timeout_s: float) -> None:
        """Asks the brokers for the lag, for at most `lag_timeout_s` each; 0: not."""
        self.values: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in FAMILIES}
        self.counts: dict[str, list[Counts]] = {}
        for consumer in consumers:
            counts = consumer.counts
            self.counts.setdefault(consumer.group_id, []).append(counts)
            for name, labels, value in _samples(consumer, counts, lag_timeout_s):
                # Each series once: of duplicates, Prometheus would keep one and hide the other.
                series, key = self.values[name], (consumer.group_id, *labels)
                merged = FAMILIES[name].merged
                series[key] = merged(series[key], value) if key in series else value


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
            if view.waits_for == "pause":
                yield "paused_seconds", place, max(open_s, 0.0)
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


def _place(topic: str | None, partition: int | None) -> tuple[str, str]:
    return topic or "", "" if partition is None else str(partition)
