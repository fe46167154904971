"""How is a topic read as Spark's Kafka source gives it, and when was a record written?"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

_FIRST = "1970-01-01 00:00:00"
_LAST = "9999-12-31 23:59:59"


def moment(timestamp: Column) -> Column:
    """The record's time; NULL where it has none, or one that most readers cannot hold."""
    return F.when(timestamp.between(F.lit(_FIRST), F.lit(_LAST)), timestamp)


def date_of(timestamp: Column) -> Column:
    """The day (of the session's time zone) of whose folder the record is, whatever its time."""
    earliest = F.greatest(timestamp, F.lit(_FIRST).cast("timestamp"))
    return F.to_date(F.least(earliest, F.lit(_LAST).cast("timestamp")))
