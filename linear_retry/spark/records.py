"""When was a record written?"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

_LAST_MS = 253_402_300_799_999  # the year 9999: what most readers of Parquet can hold
_DAY_MS = 86_400_000


def moment(timestamp: Column) -> Column:
    """The record's time; NULL where it has none, or one that most readers cannot hold."""
    return F.when(F.unix_millis(timestamp).between(0, _LAST_MS), timestamp)


def moment_of_ms(at_ms: Column) -> Column:
    """The same of milliseconds since 1970."""
    return F.when(at_ms.between(0, _LAST_MS), F.timestamp_millis(at_ms))


def date_of(timestamp: Column) -> Column:
    """The day of UTC, whatever the session's time zone, in whose folder the record is."""
    ms = F.greatest(F.lit(0), F.least(F.lit(_LAST_MS), F.unix_millis(timestamp)))
    return F.date_from_unix_date(F.floor(ms / _DAY_MS).cast("int"))
