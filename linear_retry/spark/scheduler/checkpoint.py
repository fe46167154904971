"""The file beside Spark's own in a checkpoint: whose it is, and whether it may be resumed."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from linear_retry.errors import ConfigurationError, LinearRetryError, UsageError
from linear_retry.spark.errors import JavaError, last_cause

_FILE = "linear-retry-scheduler.json"
_VERSION = 1


class CheckpointError(LinearRetryError):
    """A checkpoint cannot be read or written."""


def in_use(path: str) -> UsageError:
    """The error of a scheduler that finds another one on its checkpoint."""
    return UsageError(f"{path}: another scheduler runs on this checkpoint; stop one of them")


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """What a checkpoint belongs to.

    `partitions` are the state's; `starting` are the intake's offsets at which it began, by
    partition, if not at the beginning. `ended` says in words why it must not be resumed.
    """

    topic: str
    topic_id: str
    partitions: int
    starting: dict[str, int] = field(default_factory=dict)
    ended: str | None = None
    version: int = _VERSION


class Checkpoint:
    """A directory or URI of Spark's checkpoint, in any of Hadoop's file systems."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.path = path.rstrip("/")
        self._spark = spark

    def marker(self) -> Marker | None:
        """Returns the marker; None for a new checkpoint. Raises `CheckpointError`."""
        text = self._read(_FILE)
        if text is None:
            return None
        try:
            found = Marker(**json.loads(text))
        except (ValueError, TypeError) as error:
            raise CheckpointError(f"{self.path}/{_FILE}: is not readable: {error}") from error
        if found.version > _VERSION:
            raise CheckpointError(f"{self.path}: a newer linear_retry has made it; use that one")
        return found

    def write(self, marker: Marker) -> None:
        """Writes the marker, or raises `CheckpointError`."""
        content = json.dumps(asdict(marker)).encode()
        files, path = self._at(_FILE)
        try:
            stream = files.create(path, True)
            stream.write(content)
            stream.close()
        except JavaError as error:
            raise self._unusable(error) from error

    def open(self, topic: str, topic_id: str) -> Marker:
        """Returns the marker of a checkpoint of this topic that may be used.

        Raises `ConfigurationError` for another topic's, and for one that is drained.
        """
        found = self.known()
        if (found.topic, found.topic_id) != (topic, topic_id):
            raise ConfigurationError(
                f"{self.path}: it belongs to the topic {found.topic!r} with the id "
                f"{found.topic_id}, and {topic!r} has the id {topic_id}: use another checkpoint"
            )
        return found

    def known(self) -> Marker:
        """Returns the marker. Raises `ConfigurationError` where no scheduler has run."""
        found = self.marker()
        if found is None:
            raise ConfigurationError(f"{self.path}: no scheduler has run there; correct the path")
        return found

    def last_batch(self) -> int | None:
        """Returns the number of the last micro-batch that was committed; None without any."""
        return self._last("commits")

    def last_planned(self) -> int | None:
        """Returns the number of the last micro-batch that was begun; None without any."""
        return self._last("offsets")

    def plan(self) -> None:
        """Plans a micro-batch that reads nothing, if the last one is committed.

        Without one, a query that starts sends nothing of what waits until a new record arrives:
        Spark (4.0) asks the micro-batch before, of the same query, whether one without records is
        needed. Raises `UsageError` where another scheduler has planned one meanwhile.
        """
        last = self.last_batch()
        if last is None or last != self.last_planned():
            return
        try:
            log = self._jvm.org.apache.spark.sql.execution.streaming.OffsetSeqLog(
                self._spark._jsparkSession, f"{self.path}/offsets"
            )
            is_planned = log.add(last + 1, log.get(last).get())
        except JavaError as error:
            raise self._unusable(error) from error
        if not is_planned:
            raise in_use(self.path)

    def end_offsets(self, topic: str) -> dict[str, int]:
        """Returns the intake's offsets behind the last committed micro-batch, by partition."""
        batch = self.last_batch()
        text = None if batch is None else self._read(f"offsets/{batch}")
        if text is None:
            return {}
        # The version, the batch's metadata, then the offsets of each source.
        found: dict[str, int] = json.loads(text.splitlines()[2]).get(topic, {})
        return found

    @property
    def _jvm(self) -> Any:
        return self._spark._jvm

    def _last(self, directory: str) -> int | None:
        files, path = self._at(directory)
        try:
            if not files.exists(path):
                return None
            names = [each.getPath().getName() for each in files.listStatus(path)]
        except JavaError as error:
            raise self._unusable(error) from error
        return max((int(name) for name in names if name.isdecimal()), default=None)

    def _read(self, name: str) -> str | None:
        files, path = self._at(name)
        try:
            if not files.exists(path):
                return None
            stream = files.open(path)
            try:
                content: bytes = bytes(stream.readAllBytes())
            finally:
                stream.close()
        except JavaError as error:
            raise self._unusable(error) from error
        return content.decode()

    def _at(self, name: str) -> tuple[Any, Any]:
        try:
            path = self._jvm.org.apache.hadoop.fs.Path(f"{self.path}/{name}")
            return path.getFileSystem(self._spark._jsc.hadoopConfiguration()), path
        except (JavaError, PySparkException) as error:  # of a scheme whose jar is missing, too
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> CheckpointError:
        reason = last_cause(str(error))
        return CheckpointError(f"{self.path}: {reason}; check the path and its permissions")
