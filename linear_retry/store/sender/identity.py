"""What is fixed for the store's life: its own id, and the cluster that it sends to."""

import uuid

from sqlalchemy import Connection, select

from linear_retry.errors import ConfigurationError
from linear_retry.store.database import Database
from linear_retry.store.schema import setting


def store_id(database: Database, connection: Connection) -> str:
    """Returns the id of this store, a UUID; the first who asks makes it."""
    return _first(database, connection, "store-id", str(uuid.uuid4()))


def claim_cluster(database: Database, connection: Connection, cluster_id: str) -> None:
    """Binds the store to this Kafka cluster at its first use.

    Raises `ConfigurationError` if it is bound to another: what waits there would go to topics of
    the same names, and the positions of the intake mean other messages.
    """
    bound = _first(database, connection, "cluster", cluster_id)
    if bound != cluster_id:
        raise ConfigurationError(
            f"store {database}: cluster is {cluster_id}, must be {bound}, for which it was made; "
            "check bootstrap.servers, or name a store of this cluster's own"
        )


def _first(database: Database, connection: Connection, name: str, value: str) -> str:
    new = database.insert(setting).values(name=name, value=value).on_conflict_do_nothing()
    # It may be an application's own connection, which does not know our schema.
    options = database.execution_options
    connection.execute(new, execution_options=options)
    found = select(setting.c.value).where(setting.c.name == name)
    return str(connection.execute(found, execution_options=options).scalar_one())
