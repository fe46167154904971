"""Keeps how often a query's micro-batch has failed, in a file beside the query's checkpoint."""

import json
from typing import Any

from pyspark.sql import SparkSession

from linear_retry.records.json_fields import InvalidError, integer, read_object
from linear_retry.spark.streaming.checkpoint_file import CheckpointFile

_NAME = "linear-retry.json"


class FailureCount:
    """The count of one query, which a restart does not set back."""

    def __init__(self, session: SparkSession, query: Any) -> None:
        """`query`: Spark's own object of the running query."""
        self._file = CheckpointFile(session, f"{query.resolvedCheckpointRoot()}/{_NAME}")

    def read(self, number: int) -> tuple[int, int] | None:
        """How often the micro-batch has failed, and when first (UTC ms); None if that is not kept.

        A file of another micro-batch, or one that somebody else has written, counts as none.
        """
        content = self._file.read()
        if content is None:
            return None
        try:
            found = read_object(content)
            kept = [integer(name, found.get(name)) for name in ("batch", "failures", "first_ms")]
        except InvalidError:
            return None
        batch, failures, first_ms = kept
        return (failures, first_ms) if batch == number and failures > 0 else None

    def write(self, number: int, failures: int, first_ms: int) -> None:
        """Replaces the file."""
        kept = {"batch": number, "failures": failures, "first_ms": first_ms}
        self._file.write(json.dumps(kept).encode())
