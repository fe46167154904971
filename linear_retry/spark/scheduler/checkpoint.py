"""The file beside Spark's own in a checkpoint: whose it is, and whether it may be resumed."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from linear_retry.errors import ConfigurationError, FencedError, LinearRetryError, UsageError
from linear_retry.records.json_fields import (
    InvalidError,
    Reader,
    integer,
    invalid,
    optional,
    read_fields,
    read_object,
    text,
)
from linear_retry.spark.session import JavaError, is_concurrent, last_cause
from linear_retry.spark.streaming.checkpoint_file import CheckpointFile

_FILE = "linear-retry-scheduler.json"
_VERSION = 1


class CheckpointError(LinearRetryError):
    """A checkpoint cannot be read or written."""


def in_use(path: str) -> UsageError:
    """The error of a scheduler that finds another one on its checkpoint."""
    return UsageError(f"{path}: another scheduler runs on this checkpoint; stop one of them")


def fenced(path: str) -> FencedError:
    """The error of a scheduler that another one has replaced."""
    return FencedError(
        f"{path}: another scheduler was started on this checkpoint, which ends this one; run one"
    )


def has_ended(path: str, why: str) -> ConfigurationError:
    """The error of a scheduler whose checkpoint was drained or moved."""
    return ConfigurationError(
        f"{path}: {why}; what it held would be sent twice: use another checkpoint"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """What a checkpoint belongs to.

    `partitions` are the state's; `starting` are the intake's offsets at which it began, by
    partition, if not at the beginning. `run` identifies the scheduler that was started last; None:
    none was. `ended` says in words why it must not be resumed.
    """

    topic: str
    topic_id: str
    partitions: int
    starting: dict[str, int] = field(default_factory=dict)
    run: str | None = None
    ended: str | None = None
    version: int = _VERSION


class Checkpoint:
    """A directory or URI of Spark's checkpoint, in any of Hadoop's file systems."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.path = path.rstrip("/")
        self._spark = spark

    def marker(self) -> Marker | None:
        """Returns the marker; None for a new checkpoint. Raises `CheckpointError`."""
        content = self._read(_FILE)
        if content is None:
            return None
        try:
            found = read_object(content)
            # Before all else, which a later version may have in another form.
            if integer("version", found.get("version")) > _VERSION:
                raise CheckpointError(f"{self.path}: a newer linear_retry has made it; use that")
            return Marker(**read_fields(found, _READERS))
        except InvalidError as error:
            raise self._broken(error) from error

    def write(self, marker: Marker) -> None:
        """Writes the marker, or raises `CheckpointError`."""
        self._write(_FILE, json.dumps(asdict(marker)).encode())

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

    def claim(self, run: str) -> None:
        """Notes which scheduler runs on it from now on. Raises `CheckpointError`."""
        self.write(replace(self.known(), run=run))

    def move_start(self, batch: int, topic: str, starts: Mapping[int, int]) -> None:
        """Lets a micro-batch that is not committed start at these offsets of the intake.

        No query may run. Raises `CheckpointError`.
        """
        # It starts where the one before it ends; the first one, where Spark has begun to read.
        name = f"offsets/{batch - 1}" if batch else "sources/0/0"
        *before, _ = (self._read(name) or b"\n").splitlines()
        offsets = json.dumps({topic: {str(number): offset for number, offset in starts.items()}})
        self._write(name, b"\n".join([*before, offsets.encode()]))

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
        needed.
        """
        last = self.last_batch()
        if last is None or last != self.last_planned():
            return
        try:
            log = self._jvm.org.apache.spark.sql.execution.streaming.OffsetSeqLog(
                self._spark._jsparkSession, f"{self.path}/offsets"
            )
            log.add(last + 1, log.get(last).get())
        except JavaError as error:
            raise self.unusable(error) from error

    def end_offsets(self, topic: str) -> dict[str, int]:
        """Returns the intake's offsets behind the last committed micro-batch, by partition."""
        batch = self.last_batch()
        content = None if batch is None else self._read(f"offsets/{batch}")
        if content is None:
            return {}
        # The version, the batch's metadata, then the offsets of each source.
        found: dict[str, int] = json.loads(content.splitlines()[2]).get(topic, {})
        return found

    @property
    def _jvm(self) -> Any:
        return self._spark._jvm

    def _broken(self, error: InvalidError) -> CheckpointError:
        partitions = len(self._numbers("state/0"))
        again = f"run the scheduler with --partitions {partitions}" if partitions else "run it"
        return CheckpointError(
            f"{self.path}/{_FILE}: is not readable: {error}; restore it, or, if this checkpoint "
            f"was neither drained nor part of a resize, delete that file and {again}"
        )

    def _last(self, directory: str) -> int | None:
        return max(self._numbers(directory), default=None)

    def _numbers(self, directory: str) -> list[int]:
        """Returns those of a directory's files and directories whose name is a number."""
        try:
            path = self._jvm.org.apache.hadoop.fs.Path(f"{self.path}/{directory}")
            files = path.getFileSystem(self._spark._jsc.hadoopConfiguration())
            if not files.exists(path):
                return []
            names = [each.getPath().getName() for each in files.listStatus(path)]
        except (JavaError, PySparkException) as error:
            raise self.unusable(error) from error
        return [int(name) for name in names if name.isdecimal()]

    def _read(self, name: str) -> bytes | None:
        try:
            return CheckpointFile(self._spark, f"{self.path}/{name}").read()
        except (JavaError, PySparkException) as error:  # of a scheme whose jar is missing, too
            raise self.unusable(error) from error

    def _write(self, name: str, content: bytes) -> None:
        try:
            CheckpointFile(self._spark, f"{self.path}/{name}").write(content)
        except (JavaError, PySparkException) as error:
            raise self.unusable(error) from error

    def unusable(self, error: Exception) -> LinearRetryError:
        """Returns the error for one of Spark's: `UsageError` if another scheduler runs on it."""
        if is_concurrent(str(error)):
            return in_use(self.path)
        reason = last_cause(str(error))
        return CheckpointError(f"{self.path}: {reason}; check the path and its permissions")


def _offsets(name: str, value: object) -> dict[str, int]:
    pairs = value.items() if isinstance(value, dict) else invalid(name, value, "offsets")
    return {text(name, number): integer(name, offset) for number, offset in pairs}


_READERS: Mapping[str, Reader] = {
    "topic": text,
    "topic_id": text,
    "partitions": integer,
    "starting": _offsets,
    "run": optional(text),
    "ended": optional(text),
}
