"""What lies in a dead-letter topic, as columns?

The same rules as those of `linear_retry.dlq`, which reads one record after another: what differs is
a bug. Nothing in a record makes the job fail.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.dead_letter import VERSION
from linear_retry.dlq.foreign import FOREIGN
from linear_retry.dlq.letter import NONE, OURS
from linear_retry.spark import foreign
from linear_retry.spark.headers import INT64_MAX, Said, content
from linear_retry.spark.records import date_of, moment

_NUMBER = (0, INT64_MAX)
_TIME = (-1, INT64_MAX)
_MARKER = "retry-version"

SAID = (
    Said("version", _MARKER, (0, VERSION)),
    Said("id", "retry-id"),
    Said("generation", "retry-generation", (1, 2**31 - 1), default=1),
    Said("origin_topic", "retry-destination"),
    Said("origin_partition", "retry-original-partition", _NUMBER),
    Said("origin_offset", "retry-original-offset", _NUMBER),
    Said("origin_timestamp_ms", "retry-original-timestamp-ms", _TIME, default=-1),
    Said("group_id", "retry-group-id"),
    Said("send_to", "retry-send-to", default="dead-letter"),
    Said("reason", "retry-reason"),
    Said("failures", "retry-counter", _NUMBER, default=0),
    Said("retry_at_ms", "retry-at-ms", _NUMBER, may_be_missing=True),
    Said("first_failure_ms", "retry-first-failure-ms", _TIME, default=-1),
    Said("last_failure_ms", "retry-last-failure-ms", _TIME, default=-1),
    Said("strategy", "retry-strategy", default=""),
    Said("exception_type", "retry-exception-type", may_be_missing=True),
    Said("exception_message", "retry-exception-message", may_be_missing=True),
    Said("exception_stack", "retry-exception-stack", may_be_missing=True),
    Said("escaped_headers", "retry-escaped-headers", may_be_missing=True),
    Said("oversized", "retry-oversized", may_be_missing=True),
    Said("replay_id", "retry-replay-id", may_be_missing=True),
    Said("replay_count", "retry-replay-count", _NUMBER, may_be_missing=True),
)
"""The headers of ours, in the order of the columns. `docs/dead-letters.md` says what they mean."""

_ORIGIN = ("origin_topic", "origin_partition", "origin_offset", "origin_timestamp_ms")
_FOREIGN_TOO = (
    *(*_ORIGIN, "group_id", "reason"),
    *("exception_type", "exception_message", "exception_stack"),
)
_RECORD = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


def dead_letters(records: DataFrame) -> DataFrame:
    """The table `dead_letters` of records as Spark's Kafka source gives them, with headers."""
    # In steps, and not in one: an expression that is used ten times would be computed ten times.
    raw = records.select(
        *_RECORD,
        _last_format().alias("written by"),
        *(content(F.col("headers"), each.header).alias(each.raw) for each in SAID),
    )
    read = raw.select("*", *(each.reading().alias(each.read) for each in SAID))
    # `array_compact` has a lambda, which Spark interprets: only where something is wrong.
    problems = F.array_except(F.array(*(each.problem() for each in SAID)), F.array(F.lit(None)))
    asked = read.withColumn("our problems", _of_us(problems))
    garbled = F.array_compact(F.array(*(each.garbled() for each in SAID)))
    judged = asked.select(
        "*",
        F.when(F.size("our problems") > 0, garbled).alias("our garbage"),
        foreign.said(F.col("headers"), F.col("written by")).alias("foreign"),
    )
    return judged.select(*_columns())


def _of_us(column: Column) -> Column:
    return F.when(F.col("written by") == OURS, column)


def _last_format() -> Column:
    """Whose letter it is: each system adds its headers behind those that it found."""
    markers = {form.marker: form.name for form in FOREIGN} | {_MARKER: OURS}
    last_first = F.reverse(F.col("headers").getField("key"))
    found = F.array_intersect(last_first, F.array(*map(F.lit, markers)))
    last = F.try_element_at(found, F.lit(1))
    names = F.create_map(*(F.lit(text) for pair in markers.items() for text in pair))
    return F.coalesce(F.try_element_at(names, last), F.lit(OURS))


def _columns() -> list[Column]:
    said = F.col("foreign")
    is_ours = (F.col("written by") == OURS) & (F.size("our problems") == 0)
    problems = F.coalesce(F.col("our problems"), said.getField("problems"))
    garbled = F.coalesce(F.col("our garbage"), said.getField("garbled"))
    place = F.concat_ws("/", F.lit("foreign"), "topic", "partition", "offset")
    found = {each.column: F.when(is_ours, each.value()) for each in SAID}
    found["exception_type"] = F.nullif(found["exception_type"], F.lit(""))
    found |= {name: F.coalesce(found[name], said.getField(name)) for name in _FOREIGN_TOO}
    found["id"] = F.coalesce(found["id"], place)
    found["generation"] = F.coalesce(found["generation"], F.lit(1)).cast("int")
    found["escaped_headers"] = F.split(found["escaped_headers"], ",")
    for name in ("origin_timestamp_ms", "first_failure_ms", "last_failure_ms"):
        found[name] = F.nullif(found[name], F.lit(-1))
    is_known = is_ours | (F.col("written by") != OURS)
    return [
        *(F.col(name) for name in _RECORD if name not in ("timestamp", "headers")),
        moment(F.col("timestamp")).alias("timestamp"),
        F.col("headers"),
        F.when(is_known, F.col("written by")).otherwise(NONE).alias("format"),
        *(column.alias(name) for name, column in found.items() if name != "version"),
        F.when(F.size(problems) > 0, problems).alias("problems"),
        F.when(F.size(garbled) > 0, garbled).alias("garbled"),
        date_of(F.col("timestamp")).alias("date"),
    ]
