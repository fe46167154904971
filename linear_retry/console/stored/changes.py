"""The changes in the audit of a store, as the page of all changes shows them.

Apart from `all_changes`: a console without a store has no SQLAlchemy.
"""

from linear_retry.console.state.all_changes import MOST, Read, RecordedChange
from linear_retry.store import audit
from linear_retry.store.audit import Change
from linear_retry.store.database import Database

_IDS_SHOWN = 10


def reader(database: Database) -> Read:
    """Returns what reads them. It raises `StoreError`."""

    def read(before_id: int | None) -> list[RecordedChange]:
        with database.reading() as connection:
            found = audit.read(connection, limit=MOST, before_id=before_id)
        return [_recorded(each) for each in found]

    return read


def _recorded(change: Change) -> RecordedChange:
    details = dict(change.details)
    ids = details.pop("ids", [])
    why = str(details.pop("comment", ""))
    more = f" and {len(ids) - _IDS_SHOWN:,} more" if len(ids) > _IDS_SHOWN else ""
    subject = f"{', '.join(map(str, ids[:_IDS_SHOWN]))}{more}" if ids else ""
    rest = ", ".join(f"{name} {value}" for name, value in sorted(details.items()))
    outcome = f"{change.count:,} changed{f' ({rest})' if rest else ''}"
    return RecordedChange(
        change.at_ms, change.actor, change.action, subject, why, outcome, "store", change.id
    )
