"""Fixtures of the outbox's tests."""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest

from linear_retry.outbox import Outbox
from tests.real_kafka import RealKafka, free_ports

MakeOutbox: TypeAlias = Callable[..., Outbox]
"""`make_outbox(settings, **options)`: an outbox that is closed at the end."""


@pytest.fixture
def make_outbox(store_url: str) -> Iterator[MakeOutbox]:
    """Makes outboxes over one store, SQLite and then PostgreSQL, that give up after 0.5 s."""
    made: list[Outbox] = []

    def make(settings: dict[str, Any], **options: Any) -> Outbox:
        config = {"message.timeout.ms": 500} | settings
        given: dict[str, Any] = {"store": store_url, "sender": False} | options
        made.append(Outbox(config, **given))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def up(kafka: RealKafka) -> dict[str, Any]:
    """Settings that reach the shared broker."""
    return {"message.timeout.ms": 10_000} | kafka.client_settings()


@pytest.fixture
def down() -> dict[str, Any]:
    """Settings that reach no broker."""
    (port,) = free_ports(1)
    return {"bootstrap.servers": f"127.0.0.1:{port}"}
