"""The metrics of outboxes, for Prometheus."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from linear_retry.errors import StoreError
from linear_retry.outbox import Outbox

__all__ = ["OutboxMetrics"]

_PREFIX = "linear_retry_outbox_"
_COUNTERS = {
    "stored": "Messages that were stored, since Kafka did not take them",
    "lost": "Messages that could be neither sent nor stored",
    "sent": "Messages of the store that this process has sent",
    "dead": "Messages of the store that this process has made dead letters",
}
_GAUGES = {
    "ready": "1 if messages can be sent, or at least stored",
    "unacknowledged": "Messages that are neither in Kafka nor in the store yet",
    "lanes_held": "Lanes whose topic is missing, or does not take their first message",
    "oldest_seconds": "How long the message that waits longest in the store has been due",
}


class OutboxMetrics(Collector):
    """A collector for a registry of prometheus_client: `REGISTRY.register(OutboxMetrics(outbox))`.

    For one outbox, or several in one process: counts are added up, `ready` is 1 if all are, and of
    times the longest is shown. Everything is read at the scrape; only the oldest message is asked
    of the store, and is missing if nothing waits, or the store does not answer.
    """

    def __init__(self, *outboxes: Outbox) -> None:
        """Of an `AsyncOutbox`, give its `outbox`."""
        self._outboxes = outboxes

    def describe(self) -> Iterable[Metric]:
        """The names, so that a registry refuses duplicates. The store is not asked."""
        return _families([])

    def collect(self) -> Iterable[Metric]:
        """The current values of all metrics."""
        return _families(self._outboxes)


def _families(outboxes: Sequence[Outbox]) -> Iterator[Metric]:
    counts = [each.counts for each in outboxes]
    for name, text in _COUNTERS.items():
        total = sum(getattr(each, name) for each in counts)
        yield CounterMetricFamily(_PREFIX + name, text, value=total)
    values = {
        "ready": min((each.health().ready for each in outboxes), default=False),
        "unacknowledged": sum(map(len, outboxes)),
        "lanes_held": sum(len(each.held_lanes) for each in outboxes),
        "oldest_seconds": max(_oldest_s(outboxes), default=None),
    }
    for name, text in _GAUGES.items():
        yield GaugeMetricFamily(_PREFIX + name, text, value=values[name])


def _oldest_s(outboxes: Sequence[Outbox]) -> Iterator[float]:
    for each in outboxes:
        with suppress(StoreError):
            oldest_s = each.oldest_s()
            if oldest_s is not None:
                yield oldest_s
