"""The table `dead_letters`: the records of a dead-letter topic as columns, in SQL.

The rules are those of `linear_retry.dlq`, which reads one record after another: a difference is a
bug. Nothing in a record makes the job fail.
"""

from pyspark.sql import Column, DataFrame

from linear_retry.dlq.letters.foreign import FOREIGN
from linear_retry.dlq.letters.letter import NONE, OURS
from linear_retry.records.lineage import DIGEST_DIGITS
from linear_retry.records.retry_headers import (
    FORMAT_VERSION,
    HEADER_NAMES,
    NO_OFFSET,
    NO_PARTITION,
    RETRY_HEADERS,
    VERSION,
)
from linear_retry.spark.tables import foreign
from linear_retry.spark.tables.headers import CONTENTS, NAMES, HeaderColumn, content
from linear_retry.spark.tables.sql import (
    Projections,
    array,
    columns,
    date_of,
    moment,
    non_null,
    project,
    texts,
    when,
    with_ms,
)

_COLUMN_OF = {
    "retry_id": "id",
    "destination": "origin_topic",
    "original_partition": "origin_partition",
    "original_offset": "origin_offset",
    "original_timestamp_ms": "origin_timestamp_ms",
}
_HEADER_COLUMNS = (
    HeaderColumn("version", VERSION, (0, FORMAT_VERSION)),
    *(HeaderColumn(_COLUMN_OF.get(each.field, each.field), *each[1:]) for each in RETRY_HEADERS),
)
"""The headers of ours, in the order of the columns. docs/dead-letters/format.md describes them."""

_ORIGIN = ("origin_topic", "origin_partition", "origin_offset", "origin_timestamp_ms")
_FOREIGN_TOO = (
    *(*_ORIGIN, "group_id", "reason"),
    *("exception_type", "exception_message", "exception_stack"),
)
_RECORD = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_IS_OURS = f"written_by = '{OURS}'"
_OUR_NAMES = f"array({texts(sorted(HEADER_NAMES))})"

# Nearly all letters have these headers of ours, in this order, after the message's own: then
# their contents need not be searched by name.
_RARE = [
    each.name
    for each in RETRY_HEADERS
    if each.may_be_missing and not each.field.startswith("exception")
]
_USUAL = [each.header for each in reversed(_HEADER_COLUMNS) if each.header not in _RARE]
_IS_USUAL = (
    f"slice({NAMES}, 1, {len(_USUAL)}) = array({texts(_USUAL)}) AND "
    f"NOT arrays_overlap(slice({NAMES}, {len(_USUAL) + 1}, size({NAMES})), {_OUR_NAMES})"
)
_PLACES = [*_USUAL, *_RARE]
# As strings, UTF-8 or not: accessing these does not copy them.
_CONTENTS = (
    f"cast(CASE WHEN {_IS_USUAL} THEN slice({CONTENTS}, 1, {len(_USUAL)}) "
    f"ELSE {array(map(content, _PLACES))} END AS array<string>)"
)


def dead_letters(records: DataFrame) -> DataFrame:
    """The table `dead_letters` of records, batch or streaming, as Spark's Kafka source reads them.

    With `.option("includeHeaders", "true")`: the columns `key`, `value`, `topic`, `partition`,
    `offset`, `timestamp` and `headers` are needed; without one, Spark raises `AnalysisException`. A
    record that cannot be read is a row with `problems`. docs/spark/ingest.md has the columns.
    """
    return project(with_ms(records), letter_projections())


def letter_projections() -> Projections:
    """The projections that make the table, of records `with_ms`.

    Each copies its rows, so it keeps only what it needs.
    """
    found = {each: f"get(contents, {_PLACES.index(each.header)})" for each in _HEADER_COLUMNS}
    is_fine = " AND ".join((_IS_OURS, *(each.is_fine(at) for each, at in found.items())))
    passed_on = (*_RECORD, "timestamp_ms", "written_by", "own_headers")
    return (
        columns(
            *_RECORD,
            "timestamp_ms",
            f"{_written_by()} AS written_by",
            f"{_CONTENTS} AS contents",
            f"{when(_IS_USUAL, f'size({NAMES}) - {len(_USUAL)}')} AS own_headers",
        ),
        columns(
            *passed_on,
            f"{is_fine} AS is_fine",
            f"{when(f'NOT ({_IS_OURS})', foreign.parsed('written_by'))} AS other_system",
            *(f"{each.reading(at)} AS {each.column}" for each, at in found.items()),
        ),
        _columns(),
    )


def _written_by() -> str:
    """The system that wrote the letter: each appends its headers to those that it found."""
    systems = {form.topic: form.name for form in FOREIGN} | {VERSION: OURS}
    named = ", ".join(f"'{marker}', '{name}'" for marker, name in systems.items())
    last = f"try_element_at(array_intersect({NAMES}, array({texts(systems)})), 1)"
    # Checked first, as it takes a fraction of the time, and nearly all are ours.
    is_foreign = " OR ".join(f"array_contains({NAMES}, '{form.topic}')" for form in FOREIGN)
    return f"CASE WHEN {is_foreign} THEN try_element_at(map({named}), {last}) ELSE '{OURS}' END"


# The message's own, as ours are columns; all of them if it is not a readable letter of ours.
# `filter` could find ours in every case, but its lambda is interpreted.
_HEADERS = f"""CASE
    WHEN NOT is_fine THEN headers
    WHEN own_headers IS NOT NULL THEN slice(headers, 1, own_headers)
    ELSE filter(headers, each -> NOT array_contains({_OUR_NAMES}, each.key))
END"""


# `record_id`: the digest is of the time, both lengths, -1 for null, and both contents.
_SIZES = (
    "concat_ws(' ', timestamp_ms, coalesce(octet_length(key), -1), "
    "coalesce(octet_length(value), -1), '')"
)
_DIGEST = f"sha2(concat(cast({_SIZES} AS binary), coalesce(key, X''), coalesce(value, X'')), 256)"
_FOREIGN_ID = (
    f"concat_ws('/', 'foreign', topic, partition, `offset`, left({_DIGEST}, {DIGEST_DIGITS}))"
)


def _columns() -> tuple[Column, ...]:
    found = {each.column: each.value for each in _HEADER_COLUMNS if each.header != VERSION}
    for name in ("origin_timestamp_ms", "first_failure_ms", "last_failure_ms"):
        found[name] = when(f"{found[name]} <> -1", found[name])
    for name, none in (("origin_partition", NO_PARTITION), ("origin_offset", NO_OFFSET)):
        found[name] = when(f"{found[name]} <> {none}", found[name])
    found["exception_type"] = when(f"{found['exception_type']} <> ''", found["exception_type"])
    found["escaped_headers"] = f"split({found['escaped_headers']}, ',')"
    others = {name: f"other_system.{name}" for name in _FOREIGN_TOO}
    others |= {"id": _FOREIGN_ID, "generation": "1"}
    for name, of_ours in found.items():
        found[name] = f"CASE WHEN is_fine THEN {of_ours} ELSE {others.get(name, 'NULL')} END"
    found["generation"] = f"cast({found['generation']} AS int)"
    problems, garbled = (
        f"CASE WHEN is_fine THEN NULL WHEN {_IS_OURS} THEN {non_null(ours)} "
        f"ELSE other_system.{name} END"
        for name, ours in (
            ("problems", [each.problem for each in _HEADER_COLUMNS]),
            ("garbled", [each.garbled for each in _HEADER_COLUMNS]),
        )
    )
    kept = (name for name in _RECORD if name not in ("timestamp", "headers"))
    return columns(
        *kept,
        f"{moment('timestamp')} AS timestamp",
        f"{_HEADERS} AS headers",
        f"if(is_fine OR written_by <> '{OURS}', written_by, '{NONE}') AS format",
        *(f"{column} AS {name}" for name, column in found.items()),
        f"{when(f'size({problems}) > 0', problems)} AS problems",
        f"{when(f'size({garbled}) > 0', garbled)} AS garbled",
        f"{date_of('timestamp')} AS date",
    )
