"""What lies in a dead-letter topic, as columns?

The same rules as those of `linear_retry.dlq`, which reads one record after another: what differs is
a bug. Nothing in a record makes the job fail.
"""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.dead_letter import VERSION
from linear_retry.dlq.foreign import FOREIGN
from linear_retry.dlq.letter import NONE, OURS
from linear_retry.spark import foreign
from linear_retry.spark.headers import INT64_MAX, Said, content, last_first, present
from linear_retry.spark.records import date_of, moment
from linear_retry.spark.steps import Steps, table

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
    return table(records, letter_steps())


def letter_steps() -> Steps:
    """What makes that table. Each step copies its rows: it hands on what the next ones need."""
    names, contents = last_first(F.col("headers"))
    is_ours = F.col("written by") == OURS
    raw = [F.col(f"`{each.raw}`") for each in SAID]
    read = [F.col(f"`{each.read}`") for each in SAID]
    is_fine = is_ours & F.expr(" AND ".join(each.is_fine for each in SAID))
    is_wrong = is_ours & ~is_fine
    problems = present(*(F.expr(each.problem) for each in SAID))
    garbage = present(*(F.expr(each.garbled) for each in SAID))
    handed_on = (*_RECORD, "written by", "foreign")
    return (
        (*_RECORD, names, contents, _last_format(names).alias("written by")),
        (
            *(*_RECORD, "written by"),
            F.when(~is_ours, foreign.said(F.col("written by"))).alias("foreign"),
            *(content(each.header).alias(each.raw) for each in SAID),
        ),
        (*handed_on, *raw, *(each.reading().alias(each.read) for each in SAID)),
        (
            *handed_on,
            *read,
            is_fine.alias("is fine"),
            F.when(is_wrong, problems).alias("our problems"),
            F.when(is_wrong, garbage).alias("our garbage"),
        ),
        tuple(_columns()),
    )


def _last_format(names: Column) -> Column:
    """Whose letter it is: each system adds its headers behind those that it found."""
    markers = {form.marker: form.name for form in FOREIGN} | {_MARKER: OURS}
    found = F.array_intersect(names, F.array(*map(F.lit, markers)))
    last = F.try_element_at(found, F.lit(1))
    systems = F.create_map(*(F.lit(text) for pair in markers.items() for text in pair))
    # Asked first, since it takes a fraction of the time, and nearly all are ours.
    is_foreign = reduce(or_, (F.array_contains(names, form.marker) for form in FOREIGN))
    return F.when(is_foreign, F.try_element_at(systems, last)).otherwise(OURS)


def _columns() -> list[Column]:
    said, is_ours = F.col("foreign"), F.col("is fine")
    problems = F.coalesce(F.col("our problems"), said.getField("problems"))
    garbled = F.coalesce(F.col("our garbage"), said.getField("garbled"))
    place = F.concat_ws("/", F.lit("foreign"), "topic", "partition", "offset")
    found = {each.column: each.value() for each in SAID}
    for name in ("origin_timestamp_ms", "first_failure_ms", "last_failure_ms"):
        found[name] = F.when(found[name] != -1, found[name])
    found["exception_type"] = F.when(found["exception_type"] != "", found["exception_type"])
    found["escaped_headers"] = F.split(found["escaped_headers"], ",")
    others = {name: said.getField(name) for name in _FOREIGN_TOO}
    others |= {"id": place, "generation": F.lit(1)}
    for name, of_ours in found.items():
        ours = F.when(is_ours, of_ours)
        found[name] = ours.otherwise(others[name]) if name in others else ours
    found["generation"] = found["generation"].cast("int")
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
