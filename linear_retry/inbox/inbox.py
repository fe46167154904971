"""The inbox that a user gives a consumer: a database, and how its transactions are begun."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine

from linear_retry.consumer.settings.by_key import Order
from linear_retry.consumer.settings.inbox import InboxPlaces
from linear_retry.errors import ConfigurationError
from linear_retry.inbox.handling import Transacting
from linear_retry.inbox.places import Places
from linear_retry.retry.clock import Clock
from linear_retry.store.database import Database

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine


class Inbox:
    """Gives a consumer's handler an open transaction that also has the place of its message.

    Both are committed, or neither: the effect of each message happens once. Several consumers may
    share one. `has_one_writer` says whether its database is SQLite.
    """

    reads_all = False

    def __init__(
        self,
        transactions: "Engine | AsyncEngine | Callable[[], Any]",
        *,
        store: str | None = None,
        schema: str | None = None,
    ) -> None:
        """Connects to nothing yet.

        `transactions` is an engine of SQLAlchemy, asynchronous for `run_async`; or a function that
        begins a transaction, and returns a context manager that ends it: `sessionmaker.begin`,
        `ConnectionPool.connection` of psycopg. What the manager yields is what the handler gets.
        `store` is the URL of that database, `postgresql://...` or `sqlite:///...`; that of an
        engine by default. `schema` is the PostgreSQL schema of our tables. Raises
        `ConfigurationError`.
        """
        begin: Any = transactions
        # By its attribute: the module of an AsyncEngine needs greenlet, which few have.
        if isinstance(getattr(begin, "sync_engine", begin), Engine):
            url = begin.url.set(drivername=begin.url.get_backend_name())
            store = store or url.render_as_string(hide_password=False)
            begin = begin.begin
        elif not callable(begin):
            raise ConfigurationError(
                f"Inbox({transactions!r}): must be an engine of SQLAlchemy, or a function that "
                "begins a transaction, such as sessionmaker.begin"
            )
        if store is None:
            raise ConfigurationError(
                "Inbox: store is missing: name the database of these transactions, such as "
                "store='postgresql://user:password@host/database'"
            )
        self._begin: Callable[[], Any] = begin
        self._store, self._schema = store, schema
        self.has_one_writer = Database(store, schema=schema).is_sqlite

    def places(
        self,
        group_id: str,
        life_group_id: str,
        owner: str,
        clock: Clock,
        order: Order,
    ) -> InboxPlaces:
        """Returns the places of a consumer of this group; for `LinearConsumer`."""
        database = Database(self._store, schema=self._schema)
        places = Places(database, group_id, life_group_id, owner, clock, order)
        return Transacting(places, self._begin)
