"""Reads librdkafka's keys from a file."""

import json
from pathlib import Path
from typing import Any

from linear_retry.files import printable_path, read_text

_FORM = "write lines of key=value, or a JSON object of texts, numbers, true and false"


def read(path: Path) -> dict[str, Any]:
    """Reads the keys in the file at `path`: lines of key=value, as for Kafka's tools, or JSON.

    Raises `ValueError` with one sentence.
    """
    text = read_text(path)
    where = printable_path(path)
    return _from_json(text, where) if text.lstrip().startswith("{") else _from_lines(text, where)


def _from_lines(text: str, where: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, line in enumerate(text.split("\n"), 1):
        written = line.strip()
        if not written or written[0] in "#!":
            continue
        key, equals, value = (part.strip() for part in written.partition("="))
        if not (key and equals):
            # Not the line itself, which may contain a password.
            raise ValueError(f"{where}:{number}: not key=value; {_FORM}")
        found[key] = value
    return found


def _from_json(text: str, where: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: not JSON ({error}); {_FORM}") from None
    for key, value in found.items():
        if not isinstance(value, str | int | float):
            raise ValueError(  # noqa: TRY004  (the file is wrong, not the program)
                f"{where}: the value of {key!r} is {type(value).__name__}; {_FORM}"
            )
    return found
