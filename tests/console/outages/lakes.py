"""A lake with the table of episodes, without Spark."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
from deltalake import write_deltalake

from linear_retry.journal.entry import Entry
from tests.spark.history.expected_episodes import expected_episodes
from tests.spark.history.recorded_outages import EPISODE, PROBE


def write_episodes(lake: Path, entries: Iterable[Entry]) -> None:
    """Writes the episodes of these entries of a journal."""
    columns: list[dict[str, Any]] = [
        dict(zip(EPISODE, row, strict=True)) for row in expected_episodes(entries)
    ]
    for row in columns:
        row["probes"] = [dict(zip(PROBE, each, strict=True)) for each in row["probes"]]
    write_deltalake(lake / "episodes", pa.Table.from_pylist(columns))
