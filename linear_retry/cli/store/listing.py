"""Prints what waits in the store, what is dead in it, and how much that is."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Literal

import typer

from linear_retry.cli.output.rows import write_json, write_table
from linear_retry.records.json_fields import to_json
from linear_retry.records.printable import exact_moment, one_line
from linear_retry.store.database import Database
from linear_retry.store.listing import dead_letters, messages, statistics
from linear_retry.store.listing.dead_letters import ListedDeadLetter
from linear_retry.store.listing.filters import DeadLetterFilter, MessageFilter
from linear_retry.store.listing.messages import ListedMessage
from linear_retry.store.records import Service

_MESSAGE_HEAD = ("number", "due", "destination", "slot", "id", "bytes", "held")
_DEAD_HEAD = ("number", "died", "destination", "id", "reason", "error")


def list_messages(database: Database, wanted: MessageFilter, limit: int, *, as_json: bool) -> None:
    """Prints the messages that are due first."""
    with database.reading() as connection:
        found = messages.page(database, connection, wanted, limit=limit)
        now_ms = database.now_ms(connection)
    if as_json:
        write_json(_as_json(each) for each in found)
    elif found:
        rows = (_message_row(each, now_ms) for each in found)
        write_table(_MESSAGE_HEAD, rows, ("number", "bytes"))
    _say_rest(len(found), limit, "message waits")


def list_dead_letters(
    database: Database, wanted: DeadLetterFilter, limit: int, *, as_json: bool
) -> None:
    """Prints the latest dead letters."""
    with database.reading() as connection:
        found = dead_letters.page(database, connection, wanted, limit=limit)
    if as_json:
        write_json(_as_json(each) for each in found)
    elif found:
        write_table(_DEAD_HEAD, map(_dead_row, found), ("number",))
    _say_rest(len(found), limit, "dead letter")


def _say_rest(count: int, limit: int, what: str) -> None:
    if not count:
        typer.echo(f"no {what} that matches", err=True)
    elif count == limit:
        typer.echo(f"there may be more: --limit is {limit}", err=True)


def _as_json(each: ListedMessage | ListedDeadLetter) -> dict[str, Any]:
    return asdict(each) | {"key": to_json(each.key)}


def _message_row(each: ListedMessage, now_ms: int) -> Sequence[str]:
    is_held = each.hold_until_ms > now_ms
    held = f"until {exact_moment(each.hold_until_ms)}: {each.error}" if is_held else "-"
    size = "null" if each.value_bytes is None else str(each.value_bytes)
    cells = (exact_moment(each.due_ms), each.destination, each.slot, each.retry_id, size, held)
    return (str(each.id), *map(one_line, cells))


def _dead_row(each: ListedDeadLetter) -> Sequence[str]:
    where = each.destination or "-"
    if each.destination and each.partition is not None:
        where = f"{each.destination}[{each.partition}]"
    cells = (exact_moment(each.died_ms), where, each.retry_id, each.reason, each.error)
    return (str(each.id), *map(one_line, cells))


def show_stats(database: Database, service: Service, *, as_json: bool) -> None:
    """Prints the counts of what waits, is held and is dead."""
    with database.reading() as connection:
        waiting = statistics.waiting(database, connection, service)
        held = statistics.held(connection, service)
        dead = statistics.dead(connection, service)
    if as_json:
        for kind, counts in (("waiting", waiting), ("held", held), ("dead", dead)):
            write_json({"kind": kind, **asdict(each)} for each in counts)
        return
    rows = [
        (
            each.destination,
            f"{each.waiting}+" if each.is_more else str(each.waiting),
            str(each.due),
            exact_moment(each.oldest_due_ms),
        )
        for each in waiting
    ]
    _write("waiting", ("destination", "waiting", "due", "first due"), rows)
    lanes = [
        (each.destination, each.slot, exact_moment(each.hold_until_ms), one_line(each.error or "-"))
        for each in held
    ]
    _write("held", ("destination", "slot", "until", "error"), lanes)
    letters = [(str(each.count), each.reason, one_line(each.error)) for each in dead]
    _write("dead", ("letters", "reason", "error"), letters)


def _write(
    title: Literal["waiting", "held", "dead"],
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
) -> None:
    rows = [*rows]
    typer.echo(title if rows else f"{title}: none")
    if rows:
        write_table(head, rows, ("waiting", "due", "letters"))
