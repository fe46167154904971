"""When was a record written? In SQL."""

from __future__ import annotations

from linear_retry.spark.tables.sql import between, when

LAST_MS = 253_402_300_799_999
"""The year 9999: what most readers of Parquet can hold."""

_DAY_MS = 86_400_000


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
