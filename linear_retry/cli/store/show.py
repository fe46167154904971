"""Prints one message or dead letter of the store in full."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import typer

from linear_retry.cli.output import contents
from linear_retry.cli.output.exit_codes import NEGATIVE, fail
from linear_retry.cli.output.rows import write_json
from linear_retry.records import printable
from linear_retry.records.json_fields import to_json
from linear_retry.store import dead_letters, messages
from linear_retry.store.database import Database
from linear_retry.store.records import StoredDeadLetter, StoredMessage

_APART = ("key", "value", "headers")


def show(database: Database, number: int, *, dead: bool, payload: bool, as_json: bool) -> None:
    """Prints the one with this number."""
    with database.reading() as connection:
        get = dead_letters.get if dead else messages.get
        found: StoredMessage | StoredDeadLetter | None = get(connection, number)
    if found is None:
        what = "dead letter" if dead else "message"
        fail(f"store {database}: there is no {what} {number}", NEGATIVE)
    if as_json:
        write_json([_as_json(found, payload=payload)])
    else:
        typer.echo("\n".join(_lines(found, payload=payload)))


def _facts(found: StoredMessage | StoredDeadLetter) -> dict[str, Any]:
    return {name: value for name, value in asdict(found).items() if name not in _APART}


def _as_json(found: StoredMessage | StoredDeadLetter, *, payload: bool) -> dict[str, Any]:
    sizes = {"key_bytes": found.key, "value_bytes": found.value}
    values = _facts(found) | {
        name: None if content is None else len(content) for name, content in sizes.items()
    }
    if payload:
        values |= {"key": to_json(found.key), "value": to_json(found.value)}
    headers = [{"name": name, "value": to_json(value)} for name, value in found.headers]
    return {**values, "headers": headers}


def _lines(found: StoredMessage | StoredDeadLetter, *, payload: bool) -> Iterator[str]:
    for name, value in _facts(found).items():
        if value is not None:
            text = printable.exact_moment(value) if name.endswith("_ms") else str(value)
            yield from contents.labelled(name.removesuffix("_ms").replace("_", " "), text)
    yield "headers" if found.headers else "headers     none"
    for name, value in found.headers:
        yield f"  {printable.in_one_line(f'{name} = {contents.shown(value)}')}"
    yield from contents.whole("key", found.key, payload=payload)
    yield from contents.whole("value", found.value, payload=payload)
