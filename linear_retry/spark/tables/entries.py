"""What do the journal's records say, as columns?

The rules are those of `linear_retry.journal.entry`, whose events are the columns here: one that is
added there is read here too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, get_args, get_type_hints

from pyspark.sql import Column, DataFrame

from linear_retry.events import CloseOutcome, Event
from linear_retry.journal.entry import VERSION
from linear_retry.scope import Partition, Scope
from linear_retry.spark.tables.sql import (
    Steps,
    array,
    columns,
    date_of,
    moment,
    moment_of_ms,
    present,
    struct,
    surely,
    table,
    texts,
    when,
)

_TEXT, _WHOLE = "STRING", "BIGINT"
_EVENT_ID = "(?s)^(.+)/([0-9]{1,19})(?!.)"
_RENAMED = {
    # The record's own place has these names already.
    **{name: f"message_{name}" for name in ("topic", "partition", "offset")},
    "retry_at": "retry_at_ms",
}
_PARTITIONS = "array<struct<topic:string,partition:bigint>>"


def _get(path: str, kind: str) -> str:
    return f"try_variant_get(entry, '{path}', '{kind}')"


def _type(path: str) -> str:
    """The type of what is there, as Spark names it; `VOID` for null, NULL where nothing is."""
    return f"schema_of_variant({_get(path, 'variant')})"


def _is(*types: str) -> Callable[[str], str]:
    return lambda path: surely(f"{_type(path)} IN ({texts(types)})")


def _is_number(path: str) -> str:
    return surely(f"rlike({_type(path)}, '^(BIGINT|DOUBLE|FLOAT|DECIMAL)')")


def _is_outcome(path: str) -> str:
    found = f"{_get(path, 'string')} IN ({texts(get_args(CloseOutcome))})"
    return f"({_is(_TEXT)(path)} AND {surely(found)})"


def _is_scope(path: str) -> str:
    topic, number = f"{path}.topic", f"{path}.partition"
    is_all = f"{_is('VOID')(topic)} AND {_is('VOID')(number)}"
    return f"({is_all} OR {_is(_TEXT)(topic)} AND {_is(_WHOLE, 'VOID')(number)})"


def _is_optional(kind: str) -> Callable[[str], str]:
    return lambda path: f"coalesce({_type(path)} IN ({texts((kind, 'VOID'))}), true)"


def _are_partitions(path: str) -> str:
    is_there = "each.topic IS NOT NULL AND each.partition IS NOT NULL"
    return surely(f"forall({_get(path, _PARTITIONS)}, each -> {is_there})")


def _are_texts(path: str) -> str:
    return surely(f"forall({_get(path, 'array<string>')}, each -> each IS NOT NULL)")


@dataclass(frozen=True, slots=True)
class _Type:
    sql: str
    is_right: Callable[[str], str]


_TYPES: dict[Any, _Type] = {
    str: _Type("string", _is(_TEXT)),
    str | None: _Type("string", _is_optional(_TEXT)),
    int: _Type("bigint", _is(_WHOLE)),
    int | None: _Type("bigint", _is_optional(_WHOLE)),
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
_SEQUENCE = f"try_cast(regexp_extract(event_id, '{_EVENT_ID}', 2) AS bigint)"
_PROCESS = {
    "host": _get("$.host", "string"),
    "pid": _get("$.pid", "bigint"),
    "client_id": _get("$.client_id", "string"),
}
_COMMON = (("at_ms", int), ("group", str), ("member", str))


def entries(records: DataFrame) -> DataFrame:
    """The table `journal` of records as Spark's Kafka source gives them."""
    return table(records, entry_steps())


def entry_steps() -> Steps:
    """What makes that table."""
    entry = "try_parse_json(try_validate_utf8(cast(value AS string))) AS entry"
    return (
        columns("topic", "partition", "offset", "timestamp", "value", entry),
        columns(
            "*",
            f"{_get('$.event', 'string')} AS event",
            f"{_get('$.event_id', 'string')} AS event_id",
        ),
        columns("*", f"{_problems()} AS found"),
        _columns(),
    )


def _problems() -> str:
    version = f"{_is(_WHOLE)('$.v')} AND {_get('$.v', 'bigint')} = {VERSION}"
    kinds = sorted({kind for each in _FIELDS.values() for kind in each})
    newer = (
        f"concat('v is ', coalesce({_get('$.v', 'string')}, 'missing'), "
        f"', and {VERSION} is known here')"
    )
    return f"""CASE
        WHEN NOT {surely(f"startswith({_type('$')}, 'OBJECT')")} THEN array('no JSON object')
        WHEN NOT ({version}) THEN {array([newer])}
        WHEN NOT {surely(f"event IN ({texts(kinds)})")} THEN array('event is not known')
        ELSE {present(_wrong())}
    END"""


def _wrong() -> Iterator[str]:
    """What is wrong with each field; NULL where nothing is."""
    for name, hint in _COMMON:
        yield when(f"NOT {_type_is_right(name, hint)}", f"'{name} is wrong'")
    is_id = f"{_is(_TEXT)('$.event_id')} AND {surely(f'{_SEQUENCE} IS NOT NULL')}"
    yield when(f"NOT ({is_id})", "'event_id is wrong'")
    for (name, hint), kinds in _FIELDS.items():
        is_wrong = f"event IN ({texts(kinds)}) AND NOT {_type_is_right(name, hint)}"
        yield when(is_wrong, f"'{name} is wrong'")


def _type_is_right(name: str, hint: Any) -> str:
    return _TYPES[hint].is_right(f"$.{name}")


def _columns() -> tuple[Column, ...]:
    at_ms = _get("$.at_ms", "bigint")
    said = {
        "v": f"cast({_get('$.v', 'bigint')} AS int)",
        "event_id": "event_id",
        "instance": f"regexp_extract(event_id, '{_EVENT_ID}', 1)",
        "sequence": _SEQUENCE,
        "at_ms": at_ms,
        "at": moment_of_ms(at_ms),
        "group": _get("$.group", "string"),
        "member": _get("$.member", "string"),
        **{name: f"{when(_is_process(), value)}" for name, value in _PROCESS.items()},
        "event": "event",
        **_event_columns(),
    }
    is_right, is_wrong = "size(found) = 0", "size(found) <> 0"
    garbled = array([struct({"name": "'value'", "value": "value"})])
    return columns(
        *("topic", "partition", "offset", f"{moment('timestamp')} AS timestamp"),
        *(f"{when(is_right, value)} AS `{name}`" for name, value in said.items()),
        f"{when(is_wrong, 'found')} AS problems",
        f"{when(is_wrong, garbled)} AS garbled",
        f"{date_of('timestamp')} AS date",
    )


def _is_process() -> str:
    """All of it, or nothing: as `read_entry` has it, it spoils no entry."""
    texts_there = " AND ".join(_is(_TEXT)(f"$.{name}") for name in ("host", "client_id"))
    return f"{texts_there} AND {_is(_WHOLE)('$.pid')}"


def _event_columns() -> dict[str, str]:
    found: dict[str, str] = {}
    for (name, hint), kinds in _FIELDS.items():
        value = when(f"event IN ({texts(kinds)})", _get(f"$.{name}", _TYPES[hint].sql))
        column = _RENAMED.get(name, name)
        found[column] = f"coalesce({found[column]}, {value})" if column in found else value
    scope = found.pop("scope")
    return {
        "scope_topic": f"({scope}).topic",
        "scope_partition": f"({scope}).partition",
        **dict(sorted(found.items())),
    }
