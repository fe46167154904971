"""A lake as releases before Delta Lake wrote it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # the same

from linear_retry.spark import DEAD_LETTERS

AT = datetime(2026, 11, 21, tzinfo=UTC)


def write_old_lake(root: Path) -> None:
    """Two batches of two letters."""
    topic = root / "_ingest" / DEAD_LETTERS / "orders.dlq" / "topic.json"
    topic.parent.mkdir(parents=True)
    topic.write_text("the-id")
    for number in range(2):
        write_old_batch(root / DEAD_LETTERS, number)


def write_old_batch(table: Path, number: int) -> Path:
    """Returns the directory of the batch."""
    directory = table / f"batch=orders.dlq@{number:08d}"
    (directory / "date=2026-11-21").mkdir(parents=True)
    pq.write_table(batch(number), directory / "date=2026-11-21" / "part-0.parquet")
    return directory


def batch(number: int) -> Any:
    """Two rows."""
    both = {"topic": "orders.dlq", "partition": 0, "timestamp": AT}
    return pa.Table.from_pylist([both | {"offset": 2 * number + each} for each in range(2)])
