"""The table `journal`: the journal's records as columns, in SQL.

The rules and the columns are those of `linear_retry.journal.entry` and its events: an event that is
added there is read here too.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, get_args, get_type_hints

from pyspark.sql import Column, DataFrame

from linear_retry.events import CloseOutcome, Event
from linear_retry.journal.entry import LAST_MS, VERSION
from linear_retry.scope import Partition, Scope
from linear_retry.spark.tables.sql import (
    Projections,
    array,
    between,
    columns,
    date_of,
    moment,
    moment_of_ms,
    non_null,
    project,
    struct,
    surely,
    texts,
    when,
)

_TEXT, _WHOLE = "STRING", "BIGINT"
_LONGEST = 40
_EVENT_ID = "(?s)^(.+)/([0-9]{1,19})(?!.)"
_RENAMED = {
    # The record's own place already uses these names.
    **{name: f"message_{name}" for name in ("topic", "partition", "offset")},
    "retry_at": "retry_at_ms",
    "until": "until_ms",
}
_IS_NUMBER = "rlike({}, '^(BIGINT|DOUBLE|FLOAT|DECIMAL)')"
_PARTITIONS = "array<struct<topic:string,partition:bigint>>"


def _get(path: str, kind: str) -> str:
    return f"try_variant_get(entry, '{path}', '{kind}')"


def _type(path: str) -> str:
    """The type of a value, in Spark's names; `VOID` for null, NULL for a missing one."""
    return f"schema_of_variant({_get(path, 'variant')})"


def _is(*types: str) -> Callable[[str], str]:
    return lambda path: surely(f"{_type(path)} IN ({texts(types)})")


def _is_number(path: str) -> str:
    # A number beyond a double's range is read as infinity.
    is_finite = surely(f"abs({_get(path, 'double')}) < double('Infinity')")
    return f"({surely(_IS_NUMBER.format(_type(path)))} AND {is_finite})"


def _is_moment(path: str) -> str:
    return f"({_is(_WHOLE)(path)} AND {surely(between(_get(path, 'bigint'), 0, LAST_MS))})"


def _is_outcome(path: str) -> str:
    found = f"{_get(path, 'string')} IN ({texts(get_args(CloseOutcome))})"
    return f"({_is(_TEXT)(path)} AND {surely(found)})"


def _is_scope(path: str) -> str:
    topic, number, key = (f"{path}.{name}" for name in ("topic", "partition", "key"))
    is_all = f"{_is('VOID')(topic)} AND {_is('VOID')(number)}"
    is_some = f"{_is(_TEXT)(topic)} AND {_is(_WHOLE, 'VOID')(number)}"
    is_key = f"{_is(_TEXT)(topic)} AND {_is(_WHOLE)(number)} AND {_is(_TEXT)(key)}"
    return f"(if({_type(key)} IS NULL, {is_all} OR {is_some}, {is_key}))"


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
    is_valid: Callable[[str], str]


_TYPES: dict[Any, _Type] = {
    str: _Type("string", _is(_TEXT)),
    str | None: _Type("string", _is_optional(_TEXT)),
    int: _Type("bigint", _is(_WHOLE)),
    int | None: _Type("bigint", _is_optional(_WHOLE)),
    float: _Type("double", _is_number),
    bool: _Type("boolean", _is("BOOLEAN")),
    datetime: _Type("bigint", _is_moment),
    CloseOutcome: _Type("string", _is_outcome),
    Scope: _Type("struct<topic:string,partition:bigint,key:string>", _is_scope),
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
_COMMON = (("at_ms", datetime), ("group", str), ("member", str))


def journal(records: DataFrame) -> DataFrame:
    """The table `journal` of records, batch or streaming, as Spark's Kafka source reads them.

    Of the source's columns, `value`, `topic`, `partition`, `offset` and `timestamp` are needed;
    without one, Spark raises `AnalysisException`. A record that is no entry is a row with
    `problems`. docs/spark/ingest.md has the columns.
    """
    return project(records, entry_projections())


def entry_projections() -> Projections:
    """The projections that make the table."""
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
    shown = f"left(to_json({_get('$.v', 'variant')}), {_LONGEST})"
    other = when(f"NOT {_is(_WHOLE)('$.v')}", f"concat(' (', {_type('$.v')}, ')')")
    newer = (
        f"concat('v is ', coalesce({shown}, 'missing'), coalesce({other}, ''), "
        f"'; this release reads {VERSION}')"
    )
    return f"""CASE
        WHEN NOT {surely(f"startswith({_type('$')}, 'OBJECT')")} THEN array('not a JSON object')
        WHEN NOT ({version}) THEN {array([newer])}
        WHEN NOT {surely(f"event IN ({texts(kinds)})")} THEN array('event is not known')
        ELSE {non_null(_field_problems())}
    END"""


def _field_problems() -> Iterator[str]:
    """The problem of each field; NULL if it has none."""
    for name, hint in _COMMON:
        yield when(f"NOT {_is_valid_type(name, hint)}", f"'{name} is wrong'")
    is_id = f"{_is(_TEXT)('$.event_id')} AND {surely(f'{_SEQUENCE} IS NOT NULL')}"
    yield when(f"NOT ({is_id})", "'event_id is wrong'")
    for (name, hint), kinds in _FIELDS.items():
        is_invalid = f"event IN ({texts(kinds)}) AND NOT {_is_valid_type(name, hint)}"
        yield when(is_invalid, f"'{name} is wrong'")


def _is_valid_type(name: str, hint: Any) -> str:
    return _TYPES[hint].is_valid(f"$.{name}")


def _columns() -> tuple[Column, ...]:
    at_ms = _get("$.at_ms", "bigint")
    values = {
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
    is_valid, is_invalid = "size(found) = 0", "size(found) <> 0"
    garbled = array([struct({"name": "'value'", "value": "value"})])
    return columns(
        "topic",
        "partition",
        "offset",
        f"{moment('timestamp')} AS timestamp",
        *(f"{when(is_valid, value)} AS `{name}`" for name, value in values.items()),
        f"{when(is_invalid, 'found')} AS problems",
        f"{when(is_invalid, garbled)} AS garbled",
        f"{date_of('timestamp')} AS date",
    )


def _is_process() -> str:
    """Whether all fields of the process are valid; as in `read_entry`, else all are ignored."""
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
        "scope_key": f"({scope}).key",
        **dict(sorted(found.items())),
    }
