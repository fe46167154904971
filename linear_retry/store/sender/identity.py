"""What holds for a whole store: its own id, its cluster, and the settings of who uses it."""

import uuid

from sqlalchemy import Connection, select

from linear_retry.errors import ConfigurationError
from linear_retry.store.database import Database
from linear_retry.store.records import Service
from linear_retry.store.schema import setting

STORE_ID = select(setting.c.value).where(setting.c.name == "store-id").scalar_subquery()
"""The id of a store, for other statements; null if nobody has asked for it yet."""


def store_id(database: Database, connection: Connection) -> str:
    """Returns the id of this store, a UUID; the first who asks makes it."""
    return _first(database, connection, "store-id", str(uuid.uuid4()))


def transactional_prefix(database: Database, connection: Connection, service: Service) -> str:
    """Returns what the transactional ids of the service's leases begin with."""
    return f"linear-retry-{store_id(database, connection)}-{service}"


def claim_cluster(database: Database, connection: Connection, cluster_id: str) -> None:
    """Binds the store to this Kafka cluster at its first use.

    Raises `ConfigurationError` if it is bound to another: what waits there would go to topics of
    the same names, and the offsets of the intake are those of other messages.
    """
    bound = _first(database, connection, "cluster", cluster_id)
    if bound != cluster_id:
        raise ConfigurationError(
            f"store {database}: cluster is {cluster_id}, must be {bound}, for which it was made; "
            "check bootstrap.servers, or name a store of this cluster's own"
        )


def write(database: Database, connection: Connection, name: str, value: str) -> None:
    """Stores a setting in place of its earlier value."""
    new = database.insert(setting).values(name=name, value=value)
    connection.execute(new.on_conflict_do_update(index_elements=["name"], set_={"value": value}))


def read_all(connection: Connection, beginning: str) -> list[str]:
    """Returns the settings whose names have this beginning."""
    wanted = select(setting.c.value).where(setting.c.name.startswith(beginning, autoescape=True))
    return list(connection.execute(wanted.order_by(setting.c.name)).scalars())


def _first(database: Database, connection: Connection, name: str, value: str) -> str:
    new = database.insert(setting).values(name=name, value=value).on_conflict_do_nothing()
    # It may be an application's own connection, which does not know our schema.
    options = database.execution_options
    connection.execute(new, execution_options=options)
    found = select(setting.c.value).where(setting.c.name == name)
    return str(connection.execute(found, execution_options=options).scalar_one())
