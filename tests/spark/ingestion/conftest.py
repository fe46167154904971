"""What tests of an ingest have in common."""

import pytest

from linear_retry.spark import DEAD_LETTERS
from linear_retry.spark.ingestion.ingest import TABLES
from tests.spark.killed import places


@pytest.fixture
def only_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """For where records are, and not what is in them: to compile all columns takes seconds."""
    monkeypatch.setitem(TABLES, DEAD_LETTERS, places)
