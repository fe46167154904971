"""Fixtures of the sender's tests."""

from collections.abc import Iterator

import pytest

from linear_retry.store.database import Database
from tests.real_kafka import RealKafka
from tests.store.sender.scene import Scene


@pytest.fixture
def scene(kafka: RealKafka, database: Database) -> Iterator[Scene]:
    """The shared broker and a store of this test's own, SQLite and then PostgreSQL."""
    scene = Scene(kafka, database)
    yield scene
    scene.close()
