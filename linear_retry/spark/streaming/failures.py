"""Keeps how often a query's micro-batch has failed, in a file beside the query's checkpoint."""

import json
from typing import Any

from pyspark.sql import SparkSession

from linear_retry.records.json_fields import InvalidError, integer, read_object

_NAME = "linear-retry.json"


class FailureCount:
    """The count of one query, which a restart does not set back."""

    def __init__(self, session: SparkSession, query: Any) -> None:
        """`query`: Spark's own object of the running query."""
        java: Any = session._jvm
        self._path = java.org.apache.hadoop.fs.Path(f"{query.resolvedCheckpointRoot()}/{_NAME}")
        # Spark's own way to write into a checkpoint: there is all of a file or nothing.
        self._files = java.org.apache.spark.sql.execution.streaming.CheckpointFileManager.create(
            self._path, session._jsparkSession.sessionState().newHadoopConf()
        )

    def read(self, number: int) -> tuple[int, int] | None:
        """How often the micro-batch has failed, and when first (UTC ms); None if that is not kept.

        A file of another micro-batch, or one that somebody else has written, counts as none.
        """
        if not self._files.exists(self._path):
            return None
        stream = self._files.open(self._path)
        try:
            found = read_object(bytes(stream.readAllBytes()))
            kept = [integer(name, found.get(name)) for name in ("batch", "failures", "first_ms")]
        except InvalidError:
            return None
        finally:
            stream.close()
        batch, failures, first_ms = kept
        return (failures, first_ms) if batch == number and failures > 0 else None

    def write(self, number: int, failures: int, first_ms: int) -> None:
        """Replaces the file."""
        kept = {"batch": number, "failures": failures, "first_ms": first_ms}
        stream = self._files.createAtomic(self._path, True)
        stream.write(json.dumps(kept).encode())
        stream.close()
