"""What do the headers of other systems' dead letters say, as columns?"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.dlq.foreign import FOREIGN, Encoding, ForeignFormat
from linear_retry.spark.headers import any_text, big_endian, content, present, whole_number


def said(written_by: Column) -> Column:
    """One struct, whichever system it is; NULL where it is none of them.

    `linear_retry.dlq.foreign` has the table of systems: a row more there is read here too.
    """
    found = [(form.name, _of(form)) for form in FOREIGN]
    return reduce(
        lambda otherwise, each: F.when(written_by == each[0], each[1]).otherwise(otherwise),
        found,
        F.lit(None),
    )


def _of(form: ForeignFormat) -> Column:
    found = _text((form.topic,))
    topic = F.when(found != "", found)  # not `nullif`: Spark would compute it for every record
    numbers = [each for each in (form.partition, form.offset, form.timestamp_ms) if each]
    problems = [
        F.when(topic.isNull(), F.lit(f"{form.topic} is missing")),
        *(F.when(_is_garbled(*each), F.lit(f"{each[0]} is garbled")) for each in numbers),
    ]
    garbled = [
        F.when(
            _is_garbled(*each),
            F.struct(F.lit(each[0]).alias("name"), content(each[0]).alias("value")),
        )
        for each in numbers
    ]
    group = _text(() if form.group_id is None else (form.group_id[0],))
    prefix = "" if form.group_id is None else form.group_id[1]
    return F.struct(
        topic.alias("origin_topic"),
        *(
            F.when(topic.isNotNull(), _number(each)).alias(name)
            for name, each in (
                ("origin_partition", form.partition),
                ("origin_offset", form.offset),
                ("origin_timestamp_ms", form.timestamp_ms),
            )
        ),
        F.concat(F.lit(prefix), group).alias("group_id"),
        _text(form.reason).alias("reason"),
        _text(form.exception_type).alias("exception_type"),
        _text(form.exception_message).alias("exception_message"),
        _text(form.exception_stack).alias("exception_stack"),
        present(*problems).alias("problems"),
        present(*garbled).alias("garbled"),
    )


def _text(names: tuple[str, ...]) -> Column:
    """Of the first of these names that is there."""
    found = [any_text(content(name)) for name in names]
    return F.coalesce(*found, F.lit(None).cast("string"))


def _number(place: tuple[str, Encoding] | None) -> Column:
    if place is None:
        return F.lit(None).cast("bigint")
    return _decoded(content(place[0]), place[1])


def _is_garbled(name: str, encoding: Encoding) -> Column:
    found = content(name)
    return found.isNotNull() & _decoded(found, encoding).isNull()


def _decoded(found: Column, encoding: Encoding) -> Column:
    if encoding.size_bytes is None:
        return whole_number(found)
    return big_endian(found, encoding.size_bytes)
