"""Writes the letters of a topic to a file of JSON lines, and reads them back."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from linear_retry.dlq.letters.letter import Letter, State, read_letter
from linear_retry.dlq.reading.resolutions import Resolution
from linear_retry.errors import DeadLetterError
from linear_retry.files import atomic_file
from linear_retry.records.json_fields import from_json, integer, text, to_json
from linear_retry.records.record import Record

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Exported:
    """A letter, with its state and resolution at the time of the export."""

    letter: Letter
    resolution: Resolution | None = None

    @property
    def state(self) -> State:
        if self.letter.is_retry:
            return State.RETRY
        return State.OPEN if self.resolution is None else self.resolution.state


def write_export(path: str | os.PathLike[str], letters: Iterable[Exported]) -> int:
    """Writes `letters` to the file at `path`, one JSON object on each line; returns their number.

    The file appears only when it is complete; an existing one is replaced then. Raises `OSError`,
    and whatever reading the letters raises.
    """
    written = 0
    with atomic_file(Path(path), private=True) as file:
        for written, exported in enumerate(letters, 1):  # noqa: B007  (the number of them)
            file.write(line_of(exported))
    return written


def read_export(path: str | os.PathLike[str]) -> Iterator[Exported]:
    """Reads an exported file. Raises `OSError`, and `DeadLetterError` with file and line."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield parse_line(line)
            except (ValueError, KeyError, TypeError) as error:
                raise DeadLetterError(
                    f"{os.fspath(path)}:{number}: not a line of an export of dead letters "
                    f"({type(error).__name__}: {error})"
                ) from error


def line_of(exported: Exported) -> bytes:
    """One letter as a line: what is read back, and fields that a person searches for."""
    letter, resolution = exported.letter, exported.resolution
    content: dict[str, Any] = {
        "v": _VERSION,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp_ms": letter.timestamp_ms,
        "id": letter.id,
        "generation": letter.generation,
        "format": letter.format,
        "state": exported.state.value,
        "resolution": resolution,
        "key": to_json(letter.key),
        "value": to_json(letter.value),
        "headers": [[name, to_json(value)] for name, value in letter.headers],
        "escaped_headers": letter.escaped_headers,
    }
    return orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE)


def parse_line(line: bytes) -> Exported:
    """The inverse of `line_of`. Raises `ValueError`, `KeyError` or `TypeError` for other lines."""
    content = orjson.loads(line)
    if content["v"] != _VERSION:
        raise ValueError(f"v is {content['v']!r}, must be {_VERSION}")
    record = Record(
        text("topic", content["topic"]),
        integer("partition", content["partition"]),
        integer("offset", content["offset"]),
        integer("timestamp_ms", content["timestamp_ms"]),
        from_json(content["key"]),
        from_json(content["value"]),
        tuple((str(name), from_json(value)) for name, value in content["headers"]),
        tuple(map(str, content["escaped_headers"])),
    )
    found = content["resolution"]
    resolution = None if found is None else Resolution(**found | {"state": State(found["state"])})
    return Exported(read_letter(record), resolution)
