"""Fixtures of the consumer's tests."""

import pytest

from tests.consumer.group import LETTERS, TOPIC
from tests.fake.cluster import FakeKafka


@pytest.fixture
def fake() -> FakeKafka:
    """Six messages in two partitions, and a group that shares itself out."""
    kafka = FakeKafka(balanced=True)
    kafka.create_topic(TOPIC, 2)
    kafka.create_topic(LETTERS, 2)
    for number in range(6):
        kafka.append(TOPIC, number % 2, b"%d" % number)
    return kafka
