"""How is an expression put together as text?

By the API of columns, each of which asks the JVM for every operator, Python takes a second or two
to make those of a table. A pattern has no backslash: what one means is a setting of the session's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

LAST_MS = 253_402_300_799_999
"""The year 9999: what most readers of Parquet can hold."""

_DAY_MS = 86_400_000

Steps: TypeAlias = tuple[tuple[Column | str, ...], ...]
"""The columns of one select after another.

Not all in one: an expression that ten others use would be computed ten times. Columns are of no
data yet: made once they do for every batch.
"""


def columns(*expressions: str) -> tuple[Column, ...]:
    """Of names, and of expressions that have one."""
    # A name is not parsed: some, `offset` for one, are reserved where a session wants that.
    return tuple(F.col(each) if each.isidentifier() else F.expr(each) for each in expressions)


def texts(values: Iterable[str]) -> str:
    """The literals, with commas between."""
    return ", ".join(f"'{value}'" for value in values)


def array(values: Iterable[str]) -> str:
    return f"array({', '.join(values)})"


def present(values: Iterable[str]) -> str:
    """Those that are not NULL, each once. `array_compact` has a lambda, which is interpreted."""
    return f"array_except({array(values)}, array(NULL))"


def struct(fields: Mapping[str, str]) -> str:
    pairs = (f"'{name}', {value}" for name, value in fields.items())
    return f"named_struct({', '.join(pairs)})"


def when(condition: str, value: str) -> str:
    """NULL where it is not so."""
    return f"CASE WHEN {condition} THEN {value} END"


def between(value: str, least: int, most: int) -> str:
    # With `BETWEEN`, Spark computes the value in a step before, of its own.
    return f"({value} >= {least} AND {value} <= {most})"


def surely(condition: str) -> str:
    """False where it is NULL."""
    return f"coalesce({condition}, false)"


def moment(timestamp: str) -> str:
    """The record's time; NULL where it has none, or one that most readers cannot hold."""
    return when(between(f"unix_millis({timestamp})", 0, LAST_MS), timestamp)


def moment_of_ms(at_ms: str) -> str:
    """The same of milliseconds since 1970."""
    return when(between(at_ms, 0, LAST_MS), f"timestamp_millis({at_ms})")


def date_of(timestamp: str) -> str:
    """The day of UTC, whatever the session's time zone, in whose folder the record is."""
    ms = f"greatest(0, least({LAST_MS}, unix_millis({timestamp})))"
    return f"date_from_unix_date(cast({ms} div {_DAY_MS} AS int))"


def table(records: DataFrame, steps: Steps) -> DataFrame:
    """What the last of the steps makes of them."""
    return reduce(lambda rows, step: rows.select(*step), steps, records)
