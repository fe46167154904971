"""Fixtures of the inbox's tests."""

from collections.abc import Iterator

import pytest

from tests.inbox.effects import Effects, effects_in


@pytest.fixture
def effects(store_url: str) -> Iterator[Effects]:
    """An application's database with our tables: SQLite, and then PostgreSQL."""
    with effects_in(store_url) as found:
        yield found


@pytest.fixture
def in_postgres(postgres_url: str) -> Iterator[Effects]:
    """The same, in PostgreSQL alone."""
    with effects_in(postgres_url) as found:
        yield found
