"""Reads librdkafka's keys from a file."""

import codecs
import json
from pathlib import Path
from typing import Any

from linear_retry.files import decode_small, printable_path, read_small

_FORM = "write lines of key=value, or a JSON object"


def read(path: Path) -> dict[str, Any]:
    """The keys in the file at `path`: lines of key=value, as Kafka's own tools have, or JSON.

    Raises `ValueError` with one sentence.
    """
    content = read_small(path)
    where = printable_path(path)
    try:
        text = decode_small(content.removeprefix(codecs.BOM_UTF8))
    except ValueError as error:
        raise ValueError(f"{where}: {error}; {_FORM}") from None
    return _from_json(text, where) if text.lstrip().startswith("{") else _from_lines(text, where)


def _from_lines(text: str, where: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, line in enumerate(text.split("\n"), 1):
        written = line.strip()
        if not written or written[0] in "#!":
            continue
        key, equals, value = (part.strip() for part in written.partition("="))
        if not (key and equals):
            # Not the line itself: a password may stand in it.
            raise ValueError(f"{where}:{number}: no key=value; {_FORM}")
        if key in found:
            raise ValueError(f"{where}:{number}: {key!r} is there twice; keep one of them")
        found[key] = value
    return found


def _from_json(text: str, where: str) -> dict[str, Any]:
    twice: list[str] = []

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice.append(next(name for name in names if names.count(name) > 1))
        return found

    try:
        found = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: not JSON ({error}); {_FORM}") from None
    if twice:
        raise ValueError(f"{where}: {twice[0]!r} is there twice; keep one of them")
    for key, value in found.items():
        if not isinstance(value, str | int | float):
            raise ValueError(  # noqa: TRY004  (what is wrong is in a file, not in the program)
                f"{where}: the value of {key!r} is {type(value).__name__}, must be text, a number, "
                "true or false"
            )
    return dict(found)
