"""Reads untrusted JSON objects field by field, and bytes that stand in JSON.

Each reader of a field returns its type or raises.
"""

import base64
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeAlias, get_type_hints

Reader: TypeAlias = Callable[[str, object], Any]
"""Takes a field's name and its value (None: missing)."""
Found: TypeAlias = Mapping[str, Any]

JsonBytes: TypeAlias = str | dict[str, str] | None
"""Keys, values and headers in JSON: text where they are UTF-8, else base64."""


class InvalidError(ValueError):
    """Raised for an invalid value; its text is safe to log."""


def read_object(value: bytes | None) -> Found:
    """Returns a record's value as an object; raises InvalidError, and only that, for all else."""
    if value is None:
        raise InvalidError("no value")
    try:
        found = json.loads(
            value.decode(), parse_constant=_refuse_constant, object_pairs_hook=_object
        )
    except RecursionError as error:
        raise InvalidError("nested too deeply") from error
    except ValueError as error:
        raise InvalidError(f"not JSON: {str(error)[:80]!r}") from error
    if not isinstance(found, dict):
        raise InvalidError("not a JSON object")
    return found


def readers_of(kind: type[Any], by_type: Mapping[Any, Reader]) -> dict[str, Reader]:
    """Returns a reader for each field of a dataclass; KeyError for a type that has no reader."""
    return {name: by_type[hint] for name, hint in get_type_hints(kind).items()}


def read_fields(found: Found, readers: Mapping[str, Reader]) -> dict[str, Any]:
    """Reads the fields that have a reader. Others are ignored: a later version may have more."""
    return {name: read(name, found.get(name)) for name, read in readers.items()}


def invalid(name: str, value: object, rule: str) -> NoReturn:
    # ascii: anyone who can write to the topic chooses this text, and it is written to logs.
    raise InvalidError(f"{name} is {ascii(value)[:80]}: {rule}")


def text(name: str, value: object) -> str:
    return value if isinstance(value, str) else invalid(name, value, "a text")


def integer(name: str, value: object) -> int:
    # No more than 64 bits, which is what Kafka, Arrow and Spark have.
    if type(value) is int and -(2**63) <= value < 2**63:
        return value
    return invalid(name, value, "a whole number of 64 bits")


def number(name: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    return invalid(name, value, "a finite number")


def boolean(name: str, value: object) -> bool:
    return value if isinstance(value, bool) else invalid(name, value, "true or false")


def one_of(known: tuple[str, ...]) -> Reader:
    rule = f"one of {', '.join(known)}"
    return lambda name, value: value if value in known else invalid(name, value, rule)


def optional(read: Reader) -> Reader:
    return lambda name, value: None if value is None else read(name, value)


def many(read: Reader) -> Reader:
    """Returns a reader of lists, whose items `read` reads; the result is a tuple."""

    def read_list(name: str, value: object) -> tuple[Any, ...]:
        items = value if isinstance(value, list) else invalid(name, value, "a list")
        return tuple(read(name, item) for item in items)

    return read_list


def to_json(content: bytes | None) -> JsonBytes:
    """Returns the text, or `{"base64": "..."}` where it is not UTF-8."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def from_json(written: object) -> bytes | None:
    """The inverse of `to_json`. Raises `ValueError` for anything else."""
    match written:
        case None:
            return None
        case str():
            return written.encode()
        case {"base64": str(digits)}:
            try:
                return base64.b64decode(digits, validate=True)
            except ValueError as error:  # binascii.Error, and characters beyond ASCII
                raise ValueError(f"not base64: {error}") from error
        case _:
            raise ValueError(f"{written!r} is neither text nor base64")


def _object(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(fields)
    if len(found) < len(fields):
        raise ValueError("an object has a name twice")  # readers differ in which value they take
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)  # NaN and Infinity are Python's, not JSON's
