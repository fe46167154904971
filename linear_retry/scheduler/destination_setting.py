"""The destinations of each scheduler, as settings in its store.

Apart from `destinations`, which executors of Spark import where there is no SQLAlchemy.
"""

from dataclasses import asdict
from json import dumps, loads
from typing import Any

from linear_retry.scheduler.destinations import Destinations
from linear_retry.store.database import Database
from linear_retry.store.sender import identity

_SETTING = "destinations "


def remember(database: Database, destinations: Destinations) -> None:
    """Keeps them in the store, for those who forward its dead letters. Raises `StoreError`."""
    with database.begin() as connection:
        name, value = f"{_SETTING}{destinations.intake}", dumps(asdict(destinations))
        identity.write(database, connection, name, value)


def remembered(connection: Any) -> dict[str, Destinations]:
    """Returns those of every scheduler that was started over the store, by its topic."""
    written = map(loads, identity.read_all(connection, _SETTING))
    return {
        each["intake"]: Destinations(each["intake"], tuple(each["allow"]), each["dead_letters"])
        for each in written
    }
