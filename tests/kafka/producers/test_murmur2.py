"""The partition of a key is the one that librdkafka chooses."""

import pytest

from linear_retry.kafka.producers.acknowledged import control_config, write_all
from linear_retry.kafka.producers.murmur2 import partition_of_key
from linear_retry.records.record import OutgoingRecord
from tests.conftest import TopicFactory
from tests.real_kafka import RealKafka


@pytest.mark.broker
def test_it_is_librdkafkas(kafka: RealKafka, topic: TopicFactory) -> None:
    """Keys of any length are where librdkafka has written them."""
    name, keys = topic(5), [b"\xff\x00key-%d"[: n % 9 + 1] + b"%d" % n for n in range(60)]
    sent = control_config({"bootstrap.servers": kafka.bootstrap}, 10.0)
    write_all(sent, [OutgoingRecord(name, key, b"") for key in keys])
    found = {each.key(): each.partition() for each in kafka.read(name)}
    assert {key: partition_of_key(key, 5) for key in keys} == found
