"""What a consumer that is in no group asks, and what it keeps from the terminal."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Consumer

from linear_retry.kafka import groupless
from linear_retry.kafka.groupless import GrouplessConsumer
from linear_retry.kafka.silence import SILENT


def test_librdkafka_writes_nothing_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """At `log_level` 0 its fatal errors went to stderr all the same, between a command's lines."""
    seen: dict[str, Any] = {}
    monkeypatch.setattr(groupless, "Consumer", lambda keys: seen.update(keys) or Consumer(keys))
    with closing(GrouplessConsumer({"bootstrap.servers": "127.0.0.1:9"}, 0.1)):
        assert {name: SILENT[name] for name in ("log_level", "logger")} == {
            name: seen[name] for name in ("log_level", "logger")
        }
