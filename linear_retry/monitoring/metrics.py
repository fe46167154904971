"""Exports a consumer's metrics to Prometheus. Needs the extra `prometheus`."""

from collections.abc import Iterable, Iterator
from itertools import accumulate

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
from linear_retry.consumer.operations.monitor import HANDLED_WITHIN_S, Counts
from linear_retry.monitoring.samples import BATCHES, BATCHES_TEXT, FAMILIES, Gathered

__all__ = ["Metrics"]

_KINDS = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}


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
        gathered = Gathered(self._consumers, lag_timeout_s)
        for name, family in FAMILIES.items():
            labels = ("group", *family.labels)
            metric = _KINDS[family.kind](f"linear_retry_{name}", family.text, labels=labels)
            for key, value in gathered.values[name].items():
                metric.add_metric(key, value)
            yield metric
        yield _handling(gathered.counts)


def exposition(collectors: Iterable[Collector], accept: str) -> tuple[bytes, str]:
    """The body of a scrape and its content type, according to what the request accepts."""
    registry = CollectorRegistry(auto_describe=False)
    for each in collectors:
        registry.register(each)
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


def _handling(counts_of: dict[str, list[Counts]]) -> Metric:
    family = HistogramMetricFamily(
        f"linear_retry_{BATCHES}",
        BATCHES_TEXT,
        labels=("group",),
    )
    limits = ["+Inf" if limit_s == float("inf") else str(limit_s) for limit_s in HANDLED_WITHIN_S]
    for group, counts in counts_of.items():
        within = map(sum, zip(*(one.handled_within for one in counts), strict=True))
        buckets = list(zip(limits, map(float, accumulate(within)), strict=True))
        family.add_metric([group], buckets, sum(one.handling_s for one in counts))
    return family
