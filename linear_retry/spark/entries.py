"""What do the journal's records say, as columns?

The rules are those of `linear_retry.journal_entry`, whose events are the columns here: one that is
added there is read here too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, get_args, get_type_hints

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.events import CloseOutcome, Event
from linear_retry.journal_entry import VERSION
from linear_retry.scope import Partition, Scope
from linear_retry.spark.records import date_of, moment, moment_of_ms
from linear_retry.spark.steps import Steps, table

_TEXT, _WHOLE = "STRING", "BIGINT"
_EVENT_ID = r"(?s)\A(.+)/([0-9]{1,19})\z"
_RENAMED = {
    # The record's own place has these names already.
    **{name: f"message_{name}" for name in ("topic", "partition", "offset")},
    "retry_at": "retry_at_ms",
}
_PARTITIONS = "array<struct<topic:string,partition:bigint>>"

_ENTRY = "entry"


def _type(path: str) -> Column:
    """The type of what is there, as Spark names it; `VOID` for null, NULL where nothing is."""
    return F.schema_of_variant(F.try_variant_get(_ENTRY, path, "variant"))


def _is(*types: str) -> Callable[[str], Column]:
    return lambda path: F.coalesce(_type(path).isin(*types), F.lit(False))


def _is_number(path: str) -> Column:
    return F.coalesce(_type(path).rlike(r"\A(BIGINT|DOUBLE|FLOAT|DECIMAL)"), F.lit(False))


def _is_outcome(path: str) -> Column:
    found = F.try_variant_get(_ENTRY, path, "string")
    return _is(_TEXT)(path) & F.coalesce(found.isin(*get_args(CloseOutcome)), F.lit(False))


def _is_scope(path: str) -> Column:
    topic, number = f"{path}.topic", f"{path}.partition"
    is_all = _is("VOID")(topic) & _is("VOID")(number)
    return is_all | (_is(_TEXT)(topic) & _is(_WHOLE, "VOID")(number))


def _is_optional(path: str) -> Column:
    return F.coalesce(_type(path).isin(_WHOLE, "VOID"), F.lit(True))


def _are_partitions(path: str) -> Column:
    return _all_there(
        F.try_variant_get(_ENTRY, path, _PARTITIONS),
        lambda each: each.getField("topic").isNotNull() & each.getField("partition").isNotNull(),
    )


def _are_texts(path: str) -> Column:
    found = F.try_variant_get(_ENTRY, path, "array<string>")
    return _all_there(found, lambda each: each.isNotNull())


def _all_there(found: Column, is_there: Callable[[Column], Column]) -> Column:
    return F.coalesce(F.forall(found, is_there), F.lit(False))


@dataclass(frozen=True, slots=True)
class _Type:
    sql: str
    is_right: Callable[[str], Column]


_TYPES: dict[Any, _Type] = {
    str: _Type("string", _is(_TEXT)),
    int: _Type("bigint", _is(_WHOLE)),
    int | None: _Type("bigint", _is_optional),
    float: _Type("double", _is_number),
    bool: _Type("boolean", _is("BOOLEAN")),
    datetime: _Type("bigint", _is(_WHOLE)),
    CloseOutcome: _Type("string", _is_outcome),
    Scope: _Type("struct<topic:string,partition:bigint>", _is_scope),
    tuple[Partition, ...]: _Type(_PARTITIONS, _are_partitions),
    tuple[str, ...]: _Type("array<string>", _are_texts),
}


def _fields() -> dict[tuple[str, Any], list[str]]:
    """Name and type of each field of an event, and the events that have it."""
    found: dict[tuple[str, Any], list[str]] = defaultdict(list)
    for kind in get_args(Event):
        for name, hint in get_type_hints(kind).items():
            found[name, hint].append(kind.__name__)
    return found


_FIELDS = _fields()
_COMMON = (("at_ms", int), ("group", str), ("member", str))


def entries(records: DataFrame) -> DataFrame:
    """The table `journal` of records as Spark's Kafka source gives them."""
    return table(records, entry_steps())


def entry_steps() -> Steps:
    """What makes that table."""
    text = F.try_validate_utf8(F.col("value").cast("string"))
    return (
        (
            *("topic", "partition", "offset", "timestamp", "value"),
            F.try_parse_json(text).alias(_ENTRY),
        ),
        (
            "*",
            F.try_variant_get(_ENTRY, "$.event", "string").alias("event"),
            F.try_variant_get(_ENTRY, "$.event_id", "string").alias("event_id"),
        ),
        ("*", _problems().alias("found")),
        tuple(_columns()),
    )


def _problems() -> Column:
    version = F.try_variant_get(_ENTRY, "$.v", "bigint")
    is_known = _is(_WHOLE)("$.v") & (version == VERSION)
    wrong = [
        F.when(~_type_is_right(name, hint), F.lit(f"{name} is wrong")) for name, hint in _COMMON
    ]
    wrong.append(
        F.when(
            ~(_is(_TEXT)("$.event_id") & F.coalesce(_sequence().isNotNull(), F.lit(False))),
            F.lit("event_id is wrong"),
        )
    )
    wrong += [
        F.when(F.col("event").isin(*kinds) & ~_type_is_right(name, hint), F.lit(f"{name} is wrong"))
        for (name, hint), kinds in _FIELDS.items()
    ]
    kinds = sorted({kind for each in _FIELDS.values() for kind in each})
    said = F.coalesce(F.try_variant_get(_ENTRY, "$.v", "string"), F.lit("missing"))
    newer = F.concat(F.lit("v is "), said, F.lit(f", and {VERSION} is known here"))
    return (
        F.when(~F.coalesce(_type("$").startswith("OBJECT"), F.lit(False)), _one("no JSON object"))
        .when(
            ~is_known,
            F.array(newer),
        )
        .when(~F.coalesce(F.col("event").isin(*kinds), F.lit(False)), _one("event is not known"))
        .otherwise(F.array_compact(F.array(*wrong)))
    )


def _type_is_right(name: str, hint: Any) -> Column:
    return _TYPES[hint].is_right(f"$.{name}")


def _one(text: str) -> Column:
    return F.array(F.lit(text))


def _sequence() -> Column:
    return F.nullif(F.regexp_extract("event_id", _EVENT_ID, 2), F.lit("")).try_cast("bigint")


def _columns() -> list[Column]:
    is_right = F.size("found") == 0
    at_ms = F.try_variant_get(_ENTRY, "$.at_ms", "bigint")
    said = {
        "v": F.try_variant_get(_ENTRY, "$.v", "bigint").cast("int"),
        "event_id": F.col("event_id"),
        "instance": F.regexp_extract("event_id", _EVENT_ID, 1),
        "sequence": _sequence(),
        "at_ms": at_ms,
        "at": moment_of_ms(at_ms),
        "group": F.try_variant_get(_ENTRY, "$.group", "string"),
        "member": F.try_variant_get(_ENTRY, "$.member", "string"),
        "event": F.col("event"),
        **_event_columns(),
    }
    garbled = F.array(F.struct(F.lit("value").alias("name"), F.col("value").alias("value")))
    return [
        *(F.col(name) for name in ("topic", "partition", "offset")),
        moment(F.col("timestamp")).alias("timestamp"),
        *(F.when(is_right, column).alias(name) for name, column in said.items()),
        F.when(~is_right, F.col("found")).alias("problems"),
        F.when(~is_right, garbled).alias("garbled"),
        date_of(F.col("timestamp")).alias("date"),
    ]


def _event_columns() -> dict[str, Column]:
    found: dict[str, Column] = {}
    for (name, hint), kinds in _FIELDS.items():
        value = F.when(F.col("event").isin(*kinds), _value(name, hint))
        column = _RENAMED.get(name, name)
        found[column] = F.coalesce(found[column], value) if column in found else value
    scope = found.pop("scope")
    return {
        "scope_topic": scope.getField("topic"),
        "scope_partition": scope.getField("partition"),
        **dict(sorted(found.items())),
    }


def _value(name: str, hint: Any) -> Column:
    return F.try_variant_get(_ENTRY, f"$.{name}", _TYPES[hint].sql)
