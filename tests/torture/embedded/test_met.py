"""An error that nobody met is not counted."""

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError

from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from tests.torture.embedded.met import ErrorsMet

_ERROR = KafkaError.NOT_ENOUGH_REPLICAS


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as brokers:
        brokers.create_topic("orders")
        yield brokers


def test_each_request_meets_one(kafka: EmbeddedKafka) -> None:
    """Two are ready, and the third request gets through; what comes too late meets nobody."""
    with kafka.counting() as asked:
        met = ErrorsMet(kafka, asked)
        met.fail("Produce", _ERROR, 2)
        kafka.produce("orders", ["one"])
        met.fail("Produce", _ERROR, 3)
        met.clear()
        kafka.produce("orders", ["two"])
        met.clear()
    assert {"errors of Produce met": 2} == +met.counts


def test_what_lasts_is_met_by_all(kafka: EmbeddedKafka) -> None:
    """Each request of the kind, as long as it lasts; no other, and none after it."""
    with kafka.counting() as asked:
        met = ErrorsMet(kafka, asked)
        with met.failing("Heartbeat", _ERROR):
            kafka.produce("orders", ["one"])
        kafka.produce("orders", ["two"])
        met.clear()
    assert {} == +met.counts
