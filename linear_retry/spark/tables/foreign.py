"""Reads the headers of other systems' dead letters, in SQL."""

from linear_retry.dlq.letters.foreign import FOREIGN, Encoding, ForeignFormat
from linear_retry.spark.tables.headers import any_text, big_endian, content, named, whole_number
from linear_retry.spark.tables.sql import non_null, struct, when

_NO_TEXT, _NO_NUMBER = "cast(NULL AS string)", "cast(NULL AS bigint)"


def parsed(written_by: str) -> str:
    """One struct for all systems; NULL for any other.

    `linear_retry.dlq.letters.foreign` has the table of systems: a row added there is read here too.
    """
    found = (f"WHEN '{form.name}' THEN {_of(form)}" for form in FOREIGN)
    return f"CASE {written_by} {' '.join(found)} END"


def _of(form: ForeignFormat) -> str:
    found = _text((form.topic,))
    topic = when(f"{found} <> ''", found)  # not `nullif`: Spark would compute it for every record
    numbers = [each for each in (form.partition, form.offset, form.timestamp_ms) if each]
    problems = [
        when(f"{topic} IS NULL", f"'{form.topic} is missing'"),
        *(when(_is_garbled(*each), f"'{each[0]} is garbled'") for each in numbers),
    ]
    garbled = [when(_is_garbled(*each), named(each[0], content(each[0]))) for each in numbers]
    fields = {
        "origin_topic": topic,
        "origin_partition": when(f"{topic} IS NOT NULL", _number(form.partition)),
        "origin_offset": when(f"{topic} IS NOT NULL", _number(form.offset)),
        "origin_timestamp_ms": when(f"{topic} IS NOT NULL", _number(form.timestamp_ms)),
        "group_id": _group(form.group_id),
        "reason": _text(form.reason),
        "exception_type": _text(form.exception_type),
        "exception_message": _text(form.exception_message),
        "exception_stack": _text(form.exception_stack),
        "problems": non_null(problems),
        "garbled": non_null(garbled),
    }
    return struct(fields)


def _group(place: tuple[str, str] | None) -> str:
    return _NO_TEXT if place is None else f"concat('{place[1]}', {_text(place[:1])})"


def _text(names: tuple[str, ...]) -> str:
    """The text of the first of these headers that is there."""
    return f"coalesce({', '.join((*(any_text(content(name)) for name in names), _NO_TEXT))})"


def _number(place: tuple[str, Encoding] | None) -> str:
    return _NO_NUMBER if place is None else _decoded(content(place[0]), place[1])


def _is_garbled(name: str, encoding: Encoding) -> str:
    found = content(name)
    return f"{found} IS NOT NULL AND {_decoded(found, encoding)} IS NULL"


def _decoded(found: str, encoding: Encoding) -> str:
    if encoding.size_bytes is None:
        return whole_number(found)
    return big_endian(found, encoding.size_bytes)
