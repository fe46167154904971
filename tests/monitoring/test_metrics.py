"""Prometheus sees what has happened, on a page that it can read."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from confluent_kafka import Message, Producer
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain_text

from linear_retry import Backlog, Journal, LinearConsumer, RetryTopics, Strategy
from linear_retry.consumer.settings.consumer_config import Dependencies
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from linear_retry.monitoring.metrics import Metrics, exposition
from linear_retry.scope import Scope
from tests.kafka_operations import wait_until
from tests.living import QuickConsumer, broker_of_orders, living, patient_consumer
from tests.patience import PATIENCE_S

_KEY, _BAD, _DOWN = b"secret-key", b"bad", b"down"
_LABELS = (
    "group",
    "topic",
    "partition",
    "reason",
    "retry_topic",
    "state",
    "outcome",
    "event",
    "le",
)


class Dependency:
    """Refuses what is bad, and is down for some until it is up."""

    def __init__(self) -> None:
        self.is_up = False

    def __call__(self, message: Message) -> None:
        if message.value() == _BAD:
            raise ValueError("bad")
        if message.value() == _DOWN and not self.is_up:
            raise ConnectionError("down")


def consuming(
    kafka: EmbeddedKafka, dependency: Dependency, **options: Any
) -> AbstractContextManager[LinearConsumer]:
    return living(patient_consumer(kafka.bootstrap, **options), dependency)


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    """A bad message, two that are well, one for which the dependency is down, and another."""
    with broker_of_orders() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for value in (_BAD, b"well", b"well", _DOWN, b"well"):
            producer.produce("orders", value, _KEY)
        assert 0 == producer.flush(PATIENCE_S)
        yield broker


def _figures(metrics: Metrics) -> dict[str, dict[tuple[str, ...], float]]:
    """Name to labels' values to value, as Prometheus reads them."""
    body, _ = exposition([metrics], "")
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in plain_text(body.decode()):
        for sample in family.samples:
            assert set(_LABELS) >= sample.labels.keys()
            labels = tuple(sample.labels[name] for name in _LABELS if name in sample.labels)
            assert labels not in found.setdefault(sample.name, {}), (sample.name, labels)
            found[sample.name][labels] = sample.value
    return found


def test_a_held_key(kafka: EmbeddedKafka) -> None:
    """It is no outage, and its partition's figures say how many wait, and for how long."""
    with consuming(kafka, Dependency(), scope="key", concurrency=2) as consumer:
        metrics = Metrics(consumer, lag_timeout_s=PATIENCE_S)
        wait_until(lambda: "keys that are held: 1" in consumer.health().reason, "a key is held")
        seen = _figures(metrics)
        one = "billing", "orders", "0"
        assert {one: 1.0} == seen["linear_retry_held_keys"]
        assert {one: 0.0} == seen["linear_retry_blocked_keys"]
        assert 0.0 <= seen["linear_retry_oldest_held_seconds"][one] < 3600
        assert {("billing",): 0.0} == seen["linear_retry_open_circuits"]
        assert "linear_retry_circuit_open_seconds" not in seen
        assert 1.0 == seen["linear_retry_state"]["billing", "consuming"]


def test_a_blocked_key(kafka: EmbeddedKafka) -> None:
    """It is one of those that are held, and the one that somebody must look at."""
    options = {"scope": "key", "on_exhausted": "block", "on_permanent": "block"}
    with consuming(kafka, Dependency(), **options) as consumer:
        metrics = Metrics(consumer, lag_timeout_s=PATIENCE_S)
        wait_until(lambda: "1 of them blocked" in consumer.health().reason, "a key is blocked")
        seen, one = _figures(metrics), ("billing", "orders", "0")
        assert {one: 1.0} == seen["linear_retry_blocked_keys"] == seen["linear_retry_held_keys"]
        assert 0.0 <= seen["linear_retry_oldest_held_seconds"][one] < 3600
        assert "linear_retry_circuit_retry_timestamp_seconds" not in seen
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
        producer.produce("orders", b"well", b"another key")
        assert 0 == producer.flush(PATIENCE_S)
        expected = {("orders", 0): Backlog(lag=6, done_above=1, waiting=4)}
        wait_until(lambda: consumer.backlog() == expected, "the other key is done")
        seen = _figures(metrics)
        names = ("lag", "unfinished", "done_above_commit", "waiting_behind_held")
        assert [6.0, 5.0, 1.0, 4.0] == [seen[f"linear_retry_{name}"][one] for name in names]


def test_an_outage(kafka: EmbeddedKafka) -> None:
    """What is seen while a message is held, and after."""
    dependency = Dependency()
    with consuming(kafka, dependency) as consumer:
        metrics = Metrics(consumer, lag_timeout_s=PATIENCE_S)
        wait_until(lambda: consumer.health().state == "open", "a circuit is open")
        wait_until(lambda: consumer.lag() == {("orders", 0): 2}, "the rest is committed")
        seen = _figures(metrics)
        one, whole = ("billing", "orders", "0"), ("billing", "", "")
        assert {("billing",): 1.0} == seen["linear_retry_open_circuits"]
        assert 1.0 == seen["linear_retry_state"]["billing", "open"]
        assert 1.0 == sum(seen["linear_retry_state"].values())
        assert {("billing",): 1.0} == seen["linear_retry_ready"]
        assert 0.0 <= seen["linear_retry_circuit_open_seconds"][whole] < 3600
        retry_at = consumer.circuits[Scope()].retry_at
        assert retry_at is not None
        assert {whole: retry_at.timestamp()} == seen["linear_retry_circuit_retry_timestamp_seconds"]
        assert {whole: 1.0} == seen["linear_retry_circuit_failures"]
        attempts = {("billing", "succeeded"): 2.0, ("billing", "failed"): 2.0}
        assert attempts == seen["linear_retry_attempts_total"]
        assert {one: 1.0} == seen["linear_retry_waits_total"]
        assert {one: 3600.0} == seen["linear_retry_wait_seconds_total"]
        assert {(*one, "permanent"): 1.0} == seen["linear_retry_dead_letters_total"]
        assert {one: 2.0} == seen["linear_retry_lag"]
        assert seen["linear_retry_batch_handling_seconds_bucket"]["billing", "+Inf"] >= 3.0
        assert "linear_retry_paused_seconds" not in seen
        assert consumer.open_circuit(600, "the ledger moves").result(PATIENCE_S)
        seen = _figures(metrics)
        assert 0.0 <= seen["linear_retry_paused_seconds"][whole] < 3600
        assert whole in seen["linear_retry_circuit_open_seconds"]
        assert "paused by the program: the ledger moves" in consumer.health().reason
        assert consumer.close_circuit().result(PATIENCE_S)
        dependency.is_up = True
        consumer.retry_now("orders", 0, 3).result(PATIENCE_S)
        wait_until(lambda: consumer.lag() == {("orders", 0): 0}, "all is committed")
        after = _figures(metrics)
        assert {("billing",): 0.0} == after["linear_retry_open_circuits"]
        assert "linear_retry_circuit_open_seconds" not in after
        assert 1.0 == after["linear_retry_circuits_closed_total"]["billing", "recovered"]
        assert 1.0 == after["linear_retry_events_total"]["billing", "RetriedNow"]
        assert {one: 0.0} == after["linear_retry_lag"]
    assert 1.0 == _figures(metrics)["linear_retry_state"]["billing", "stopped"]


def test_messages_that_are_out(kafka: EmbeddedKafka) -> None:
    """How many left for which retry topic; on the retry line how many wait, until when, and lag."""
    retries = RetryTopics("orders.billing.retry", strategy=["1h", "5m"], limit=None)
    for topic in retries.topics:
        kafka.create_topic(topic)
    config = {"bootstrap.servers": kafka.bootstrap, "group.id": "billing", "log_level": 0}
    quick = Dependencies(consumer=QuickConsumer)
    live = patient_consumer(kafka.bootstrap, strategy=[], on_exhausted=retries)
    retry = LinearConsumer(
        config,
        retries,
        strategy=[],
        transient=ConnectionError,
        dead_letters="orders.dlq",
        _dependencies=quick,
    )
    with living(live, Dependency()), living(retry, Dependency()):
        wait_until(lambda: retry.health().waiting == 1, "a message waits")
        seen, health = _figures(Metrics(live, retry, lag_timeout_s=PATIENCE_S)), retry.health()
        to = ("billing", "orders", "0", "orders.billing.retry.1h")
        assert {to: 1.0} == seen["linear_retry_sent_to_retry_total"]
        waiting = {("billing",): 0.0, ("billing.retry",): 1.0}
        assert waiting == seen["linear_retry_messages_waiting"]
        assert health.until is not None
        due_s = seen["linear_retry_next_retry_timestamp_seconds"]["billing.retry",]
        assert abs(due_s - health.until.timestamp()) < 60
        assert ("consuming", True, True) == (health.state, health.alive, health.ready)
        # It has not been handled: what waits is lag, also while its partition is not read.
        assert 1.0 == seen["linear_retry_lag"]["billing.retry", "orders.billing.retry.1h", "0"]


def test_what_a_journal_has_dropped(kafka: EmbeddedKafka) -> None:
    """By topic, from 0 on; two journals of one topic, on two clusters, are one figure."""
    unreachable = {"bootstrap.servers": "127.0.0.1:9"}
    journals = [Journal("one", unreachable), Journal("one", unreachable), Journal("other")]
    kafka.create_topic("other")
    with consuming(kafka, Dependency(), listeners=journals) as consumer:
        wait_until(lambda: consumer.health().state == "open", "a circuit is open")
        metrics = Metrics(consumer)
        dropped = _figures(metrics)["linear_retry_journal_dropped_total"]
        assert {("billing", "one"): 0.0, ("billing", "other"): 0.0} == dropped
    first, second, other = [journal.dropped for journal in journals]
    assert first == second > 3
    assert 0 == other
    dropped = _figures(metrics)["linear_retry_journal_dropped_total"]
    assert {("billing", "one"): 2.0 * first, ("billing", "other"): 0.0} == dropped


def test_no_key_and_no_offset_is_shown(kafka: EmbeddedKafka) -> None:
    """Nor an exception's text: what Prometheus keeps is for many eyes, and for each value apart."""
    with consuming(kafka, Dependency()) as consumer:
        wait_until(lambda: consumer.health().state == "open", "a circuit is open")
        body, _ = exposition([Metrics(consumer)], "")
    text = body.decode()
    assert [] == [word for word in ("secret", "offset=", "ConnectionError") if word in text]


def test_both_forms_can_be_read(kafka: EmbeddedKafka) -> None:
    """Prometheus's own text, and OpenMetrics for who asks for that."""
    with consuming(kafka, Dependency()) as consumer:
        wait_until(lambda: consumer.health().state == "open", "a circuit is open")
        metrics = Metrics(consumer)
        plain, plain_type = exposition([metrics], "text/plain")
        new, new_type = exposition([metrics], "application/openmetrics-text; version=1.0.0")
    names = {family.name for family in plain_text(plain.decode())}
    families = open_metrics(new.decode())  # type: ignore[no-untyped-call]  # the client has no types for it
    assert {name.removesuffix("_total") for name in names} == {one.name for one in families}
    assert plain_type.startswith("text/plain")
    assert new_type.startswith("application/openmetrics-text")


def test_a_registry_takes_it_once_and_asks_nobody(kafka: EmbeddedKafka) -> None:
    """Registered before the consumer runs; a second of the same names is refused."""
    consumer = LinearConsumer(
        {"bootstrap.servers": "127.0.0.1:9", "group.id": "billing"},
        ["orders"],
        strategy=Strategy([1]),
        transient=ConnectionError,
        dead_letters="orders.dlq",
    )
    registry = CollectorRegistry(auto_describe=True)
    registry.register(Metrics(consumer))
    with pytest.raises(ValueError, match="Duplicated"):
        registry.register(Metrics(consumer))
    assert 1.0 == registry.get_sample_value(
        "linear_retry_state", {"group": "billing", "state": "starting"}
    )


def test_two_of_one_group_are_shown_as_one(kafka: EmbeddedKafka) -> None:
    """A series may be there once: else Prometheus would show one of them, and hide the other."""
    other = LinearConsumer(
        {"bootstrap.servers": kafka.bootstrap, "group.id": "billing"},
        ["orders"],
        strategy=Strategy([1]),
        transient=ConnectionError,
        dead_letters="orders.dlq",
    )
    with consuming(kafka, Dependency()) as consumer:
        wait_until(lambda: consumer.health().state == "open", "a circuit is open")
        alone = _figures(Metrics(consumer))
        for pair in ((consumer, other), (other, consumer)):
            seen = _figures(Metrics(*pair))
            states = {labels[1] for labels, value in seen["linear_retry_state"].items() if value}
            assert {"open", "starting"} == states
            assert {("billing",): 0.0} == seen["linear_retry_ready"]
            assert {("billing",): 1.0} == seen["linear_retry_open_circuits"]
        twice = _figures(Metrics(consumer, consumer))
    for name in ("linear_retry_attempts_total", "linear_retry_batch_handling_seconds_bucket"):
        assert {labels: 2 * value for labels, value in alone[name].items()} == twice[name]
    for name in ("linear_retry_circuit_retry_timestamp_seconds", "linear_retry_ready"):
        assert alone[name] == twice[name]


def test_several_consumers_share_the_names(kafka: EmbeddedKafka) -> None:
    """Reported apart by their groups: one collector, for a page may name each metric once."""
    consumers = [
        LinearConsumer(
            {"bootstrap.servers": kafka.bootstrap, "group.id": group},
            ["orders"],
            strategy=Strategy([1]),
            transient=ConnectionError,
            dead_letters="orders.dlq",
        )
        for group in ("billing", "shipping")
    ]
    seen = _figures(Metrics(*consumers))
    assert 0.0 == seen["linear_retry_events_total"]["billing", "DeadLettered"]
    assert {("billing",): 0.0, ("shipping",): 0.0} == seen["linear_retry_open_circuits"]
