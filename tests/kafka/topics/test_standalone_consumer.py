"""What a consumer that is in no group asks, and what it keeps from the terminal."""

from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Consumer

from linear_retry.kafka.quiet import QUIET
from linear_retry.kafka.topics import standalone_consumer
from linear_retry.kafka.topics.standalone_consumer import StandaloneConsumer


def test_librdkafka_writes_nothing_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """At `log_level` 0 its fatal errors went to stderr all the same, between a command's lines."""
    seen: dict[str, Any] = {}
    monkeypatch.setattr(
        standalone_consumer, "Consumer", lambda keys: seen.update(keys) or Consumer(keys)
    )
    with closing(StandaloneConsumer({"bootstrap.servers": "127.0.0.1:9"}, 0.1)):
        assert {name: QUIET[name] for name in ("log_level", "logger")} == {
            name: seen[name] for name in ("log_level", "logger")
        }
