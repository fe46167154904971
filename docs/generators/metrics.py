"""Describes the metrics from the collector that exports them."""

from prometheus_client.core import Metric

from docs.generators.markdown import cell, codes, table
from linear_retry.monitoring.metrics import Metrics


def metrics() -> str:
    """Describes every metric of a consumer: its name, type, labels and meaning."""
    rows = (
        (f"`{exported_name(one)}`", one.type, codes(labels_of(one)), cell(one.documentation))
        for one in Metrics().describe()
    )
    return table(("metric", "type", "labels", "means"), rows)


def exported_name(family: Metric) -> str:
    """Returns its name in Prometheus."""
    return family.name + ("_total" if family.type == "counter" else "")


def labels_of(family: Metric) -> tuple[str, ...]:
    """Returns the names of its labels, which prometheus_client keeps for every kind of family."""
    return tuple(vars(family)["_labelnames"])
