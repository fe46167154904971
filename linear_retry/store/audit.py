"""The audit: every change by a person, with who, when, what and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from json import dumps, loads
from typing import Any

from sqlalchemy import Connection, insert, select

from linear_retry.store.database import Database
from linear_retry.store.schema import audit


@dataclass(frozen=True, slots=True)
class Change:
    """A change as the audit has it."""

    id: int
    at_ms: int
    actor: str
    """The user's name, or how they were recognised."""
    action: str
    """What was done, as `postpone` or `forward`."""
    count: int
    """To how many messages or dead letters."""
    details: Mapping[str, Any]
    """Ids, reason and the like; never keys or values."""


def write(
    database: Database,
    connection: Connection,
    *,
    actor: str,
    action: str,
    count: int,
    details: Mapping[str, Any],
) -> None:
    """Writes a change; in the transaction that makes it, or one could be without the other."""
    now_ms = database.now_ms(connection)
    row = {"at_ms": now_ms, "actor": actor, "action": action, "count": count}
    connection.execute(insert(audit).values(**row, details=dumps(dict(details))))


def read(connection: Connection, *, limit: int, before_id: int | None = None) -> list[Change]:
    """Reads changes, the latest first; with `before_id` those that came before that one."""
    wanted = select(audit).order_by(audit.c.id.desc()).limit(limit)
    if before_id is not None:
        wanted = wanted.where(audit.c.id < before_id)
    return [
        Change(**row._asdict() | {"details": loads(row.details)})
        for row in connection.execute(wanted)
    ]
