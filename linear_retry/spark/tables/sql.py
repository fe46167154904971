"""Builds SQL expressions as text.

The API of columns asks the JVM for every operator: a table's would take a second or two. A pattern
has no backslash: what one means is a setting of the session.
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.records.durations import DAY_MS

LAST_MS = 253_402_300_799_999
"""The end of the year 9999: the latest time that most readers of Parquet can hold."""

Projections: TypeAlias = tuple[tuple[Column | str, ...], ...]
"""The columns of one select after another.

Not one for all: an expression that ten others use would be computed ten times. Columns contain no
data, so they are created once, for every batch.
"""


def columns(*expressions: str) -> tuple[Column, ...]:
    """Columns of names, and of expressions with an alias."""
    # Names are not parsed: some, such as `offset`, may be reserved words in a session.
    return tuple(F.col(each) if each.isidentifier() else F.expr(each) for each in expressions)


def texts(values: Iterable[str]) -> str:
    """Text literals, separated by commas."""
    return ", ".join(f"'{value}'" for value in values)


def array(values: Iterable[str]) -> str:
    return f"array({', '.join(values)})"


def non_null(values: Iterable[str]) -> str:
    """An array of the distinct values that are not NULL.

    `array_compact` has a lambda, which is interpreted.
    """
    return f"array_except({array(values)}, array(NULL))"


def struct(fields: Mapping[str, str]) -> str:
    pairs = (f"'{name}', {value}" for name, value in fields.items())
    return f"named_struct({', '.join(pairs)})"


def when(condition: str, value: str) -> str:
    """The value where the condition is true, else NULL."""
    return f"CASE WHEN {condition} THEN {value} END"


def between(value: str, least: int, most: int) -> str:
    # With `BETWEEN`, Spark would compute the value in a separate step before.
    return f"({value} >= {least} AND {value} <= {most})"


def surely(condition: str) -> str:
    """The condition, or false where it is NULL."""
    return f"coalesce({condition}, false)"


def moment(timestamp: str) -> str:
    """A record's timestamp; NULL if it is missing, or out of most readers' range."""
    return when(between(f"unix_millis({timestamp})", 0, LAST_MS), timestamp)


def moment_of_ms(at_ms: str) -> str:
    """As `moment`, of milliseconds since 1970."""
    return when(between(at_ms, 0, LAST_MS), f"timestamp_millis({at_ms})")


def date_of(timestamp: str) -> str:
    """A record's date in UTC, by which readers skip files."""
    ms = f"greatest(0, least({LAST_MS}, unix_millis({timestamp})))"
    return f"date_from_unix_date(cast({ms} div {DAY_MS} AS int))"


def with_ms(records: DataFrame) -> DataFrame:
    """The records with their timestamp in milliseconds too: Spark's own cannot be any number."""
    return records.withColumn("timestamp_ms", F.unix_millis("timestamp"))


def project(records: DataFrame, projections: Projections) -> DataFrame:
    """The records after one select for each of the projections."""
    return reduce(lambda rows, step: rows.select(*step), projections, records)
