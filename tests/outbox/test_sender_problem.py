"""The sender of outboxes says why it does not send."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from linear_retry import ConfigurationError, Strategy
from linear_retry.outbox.outbox_sender import OutboxSender
from linear_retry.store.database import Database
from linear_retry.store.sender.leases import Leases
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka


@contextmanager
def _running(sender: OutboxSender) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=sender.run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE_S)


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_it_is_not_ready_while_the_brokers_are_away(
    database: Database, down: dict[str, Any], kafka: RealKafka
) -> None:
    """Nor before it has begun; it is alive all the time, as a restart would not help."""
    strategy = Strategy([1])
    away = OutboxSender(database, down, strategy)
    assert "it has not begun" == away.not_ready()
    with _running(away):
        wait_until(lambda: "brokers" in (away.not_ready() or ""), "it waits", detail=away.not_ready)
        assert away.not_alive() is None
    there = OutboxSender(database, kafka.client_settings(), strategy)
    with _running(there):
        wait_until(lambda: there.not_ready() is None, "it works", detail=there.not_ready)


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_it_is_ready_though_others_have_all_leases(database: Database, kafka: RealKafka) -> None:
    """The fifth instance of eight leases, of which four have two each, stands by."""
    others = [Leases(database, "outbox", f"instance {n}", 10_000) for n in range(4)]
    for each in others * 2:
        each.keep()
    assert [2, 2, 2, 2] == [len(each.numbers) for each in others]
    fifth = OutboxSender(database, kafka.client_settings(), Strategy([1]))

    def is_ready() -> bool:
        for each in others:
            each.keep()
        return fifth.not_ready() is None

    with _running(fifth):
        wait_until(is_ready, "it stands by", fifth.not_ready)
    assert [2, 2, 2, 2] == [len(each.numbers) for each in others]


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_key_that_librdkafka_refuses_ends_it_at_once(
    database: Database, down: dict[str, Any]
) -> None:
    """The bug: "no broker answers", for ever. What it is not is said when it begins."""
    sender = OutboxSender(database, down | {"sasl.mechanismus": "PLAIN"}, Strategy([1]))
    with pytest.raises(ConfigurationError, match=r"the producer's configuration: .*mechanismus"):
        sender.run(threading.Event())
