"""The bad rows that a handler of micro-batches names, and the places in Kafka of rows."""

from collections.abc import Sequence
from typing import TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.errors import UsageError

PLACE = ("topic", "partition", "offset")
Range: TypeAlias = tuple[str, int, int, int]
"""A topic, a partition, and the first and last offset in it."""


class BadRows(Exception):  # noqa: N818  (it names rows, and its cause is the error)
    """Raised by a handler of `foreach_batch`: these rows are bad, and it is done with all others.

    `rows`: a DataFrame with the columns `topic`, `partition` and `offset`, or tuples of these
    three. They have failed permanently with `cause`: `on_permanent` decides about them. If
    they are none, or not of the micro-batch, or `cause` is no `Exception`, the query fails with
    `UsageError`, and the micro-batch is not done.
    """

    __module__ = "linear_retry.spark"  # its public name, for logs and dead letters

    def __init__(self, rows: object, cause: Exception) -> None:
        super().__init__(rows, cause)
        self.rows = rows
        self.cause = cause

    def __str__(self) -> str:
        return f"rows of the micro-batch are bad: {self.cause!r}"


def named(session: SparkSession, rows: object) -> DataFrame:
    """The places that a handler names. Raises `UsageError` if they are none."""
    if isinstance(rows, DataFrame):
        missing = set(PLACE) - set(rows.columns)
        if missing:
            raise UsageError(f"a DataFrame that lacks the columns {', '.join(sorted(missing))}")
        return rows.select(*PLACE)
    try:
        places = [(str(topic), int(number), int(offset)) for topic, number, offset in rows]  # type: ignore[attr-defined]  # found out by doing it
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{rows!r:.80}; give a DataFrame, or tuples of topic, partition and offset"
        ) from error
    return session.createDataFrame(places, "topic string, partition int, `offset` bigint")


def ranges_of(rows: DataFrame) -> Sequence[Range]:
    """The offsets of each partition that has rows, in the order of dead letters."""
    ends = rows.groupBy("topic", "partition").agg(F.min("offset"), F.max("offset"))
    return sorted((row[0], row[1], row[2], row[3]) for row in ends.collect())


def split(ranges: Sequence[Range]) -> Sequence[Sequence[Range]]:
    """Both halves: of the partitions, or else of the offsets of one; none of a single offset."""
    if len(ranges) > 1:
        middle = len(ranges) // 2
        return ranges[:middle], ranges[middle:]
    for topic, partition, first, last in ranges:
        if first < last:
            middle = (first + last) // 2
            return [(topic, partition, first, middle)], [(topic, partition, middle + 1, last)]
    return ()


def within(ranges: Sequence[Range]) -> Column:
    """Whether a row is in consecutive ranges of a micro-batch."""
    topic, partition, first, _ = ranges[0]
    end_topic, end_partition, _, last = ranges[-1]
    place = F.struct(*PLACE)
    return place.between(_place(topic, partition, first), _place(end_topic, end_partition, last))


def _place(topic: str, partition: int, offset: int) -> Column:
    numbers = F.lit(partition).cast("int"), F.lit(offset).cast("bigint")
    return F.struct(*map(Column.alias, (F.lit(topic), *numbers), PLACE))
