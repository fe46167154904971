"""Prometheus sees what an outbox stores, and for how long."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import text

from linear_retry.monitoring.outbox_metrics import OutboxMetrics
from linear_retry.outbox import Outbox
from linear_retry.store.database import Database
from tests.docs.markdown import page
from tests.real_kafka import free_ports

_PREFIX = "linear_retry_outbox_"


@pytest.fixture
def outbox(sqlite_url: str) -> Iterator[Outbox]:
    """One that reaches no broker."""
    (port,) = free_ports(1)
    config: dict[str, Any] = {"bootstrap.servers": f"127.0.0.1:{port}", "message.timeout.ms": 200}
    with Outbox(config, store=sqlite_url, sender=False) as made:
        yield made


def _values(registry: CollectorRegistry) -> dict[str, float]:
    return {
        sample.name.removeprefix(_PREFIX): sample.value
        for family in registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_it_shows_what_is_stored_and_what_is_lost(outbox: Outbox, sqlite_url: str) -> None:
    """And the age of the oldest; without the store it shows the rest."""
    registry = CollectorRegistry()
    registry.register(OutboxMetrics(outbox))
    counts = ("stored_total", "lost_total", "sent_total", "dead_total")
    nothing = dict.fromkeys((*counts, "unacknowledged", "lanes_held"), 0.0) | {"ready": 1.0}
    assert nothing == _values(registry)
    outbox.produce("orders", b"1")
    assert 1.0 == _values(registry)["unacknowledged"]
    assert 0 == outbox.flush()
    found = _values(registry)
    assert 0.0 <= found.pop("oldest_seconds") < 60.0
    assert nothing | {"stored_total": 1.0} == found
    database = Database(sqlite_url)
    with database.begin() as connection:
        connection.execute(text("UPDATE linear_retry_message SET due_ms = due_ms - 60000"))
        connection.execute(text("UPDATE linear_retry_lane SET low_due_ms = 0"))
    database.close()
    assert 60.0 <= _values(registry)["oldest_seconds"] < 120.0


def test_several_outboxes_are_shown_as_one(outbox: Outbox, tmp_path: Path) -> None:
    """Counts are added up; ready are all or none, and a closed one is not."""
    config = {"bootstrap.servers": "127.0.0.1:1"}
    with Outbox(config, store=f"sqlite:///{tmp_path}/other.sqlite3", sender=False) as other:
        registry = CollectorRegistry()
        registry.register(OutboxMetrics(outbox, other))
        outbox.produce("orders", b"1")
        other.produce("orders", b"2")
        found = _values(registry)
        assert (1.0, 2.0) == (found["ready"], found["unacknowledged"])
        other.close(0.0)
    found = _values(registry)
    assert (0.0, 1.0) == (found["ready"], found["stored_total"])


def test_the_guide_has_every_metric() -> None:
    """By its name in Prometheus."""
    written = set(re.findall(rf"`({_PREFIX}\w+)`", page("docs/guides/outbox.md")))
    exported = {
        family.name + ("_total" if family.type == "counter" else "")
        for family in OutboxMetrics().describe()
    }
    assert exported == written
