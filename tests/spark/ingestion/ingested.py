"""What tests of an ingest write to a topic, and read from a lake without Spark."""

from typing import Any

import duckdb
from deltalake import DeltaTable

from linear_retry.spark import DEAD_LETTERS
from tests.dlq.sample_letters import our_record
from tests.kafka_operations import Record

IMPATIENT = {"kafka.default.api.timeout.ms": 1000, "kafka.request.timeout.ms": 500}
"""With these keys Spark's client gives up after a second, and not after minutes."""


def sample_letters(count: int, partitions: int = 1, first: int = 0) -> list[Record]:
    """So many letters, from the number `first`, in all partitions by turns."""
    records = [our_record(number) for number in range(first, first + count)]
    return [
        (number % partitions, each.key, each.value, each.headers)
        for number, each in enumerate(records)
    ]


def rows_of(lake: str, table: str) -> list[dict[str, Any]]:
    """As whoever finds the files reads them."""
    return list(DeltaTable(f"{lake}/{table}").to_pyarrow_table().to_pylist())


def places_of(lake: str) -> list[tuple[int, int]]:
    """Partition and offset of each letter, on which two readers without Spark must agree."""
    found = sorted((row["partition"], row["offset"]) for row in rows_of(lake, DEAD_LETTERS))
    letters = DeltaTable(f"{lake}/{DEAD_LETTERS}").to_pyarrow_dataset()
    with duckdb.connect() as duck:
        duck.register("letters", letters)
        duck.execute('SELECT "partition", "offset" FROM letters ORDER BY ALL')
        assert duck.fetchall() == found
    return found
